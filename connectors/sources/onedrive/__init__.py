"""OneDrive, through Microsoft Graph."""

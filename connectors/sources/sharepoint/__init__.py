"""SharePoint document libraries, through Microsoft Graph."""

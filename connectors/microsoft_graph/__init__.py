"""Microsoft Graph: what OneDrive and SharePoint have in common."""

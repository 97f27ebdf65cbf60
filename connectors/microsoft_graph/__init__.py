"""Microsoft Graph: what the content services behind it have in common."""

"""One file a page; Streamlit runs them behind the sign-in form of app.py (`pages` would be run without it)."""

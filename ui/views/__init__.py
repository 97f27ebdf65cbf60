"""Pages of the app, one file each, run by app.py after sign-in.

Streamlit would run a folder `pages` without sign-in.
"""

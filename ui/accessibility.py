"""Repairs of Streamlit's own markup that axe refuses, in one place; each names the rule that it fails.

`list`, `listitem`: the navigation's list holds sections, and these its items. `presentation-role-conflict`: the file
field's drop zone has the role of decoration and takes the keyboard's focus. `svg-img-alt`: the groups of a chart's
points have a role and no name.
"""

from __future__ import annotations

import base64
import hashlib

SCRIPT = """(() => {
  if (window.repairsMarkup) return;
  window.repairsMarkup = true;
  const repairs = [
    ["[data-testid=stSidebarNavItems], [data-testid=stSidebarNavItems] li", "role", "presentation"],
    ["[data-testid=stFileUploaderDropzone]", "role", "group"],
    ["svg [role=graphics-symbol]:not([aria-label])", "aria-hidden", "true"],
  ];
  const repair = () => repairs.forEach(([where, name, value]) => document.querySelectorAll(where).forEach(
    (element) => element.getAttribute(name) === value || element.setAttribute(name, value)));
  new MutationObserver(repair).observe(document.body, {childList: true, subtree: true});
  repair();
})();"""
HASH = f"'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
"""Allows the script in the content security policy."""
ELEMENT = f"<script>{SCRIPT}</script>"
"""For `st.html`."""

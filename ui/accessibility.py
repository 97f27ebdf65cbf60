"""Repairs of Streamlit's markup for axe's rules."""

from __future__ import annotations

import base64
import hashlib

# Rules `list` and `listitem`: the navigation's list holds sections. `presentation-role-conflict`: the file field's drop
# zone is decoration with keyboard focus. `svg-img-alt`: groups of a chart's points have a role without a name.
REPAIR_SCRIPT = """(() => {
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
# For the content security policy.
SCRIPT_HASH = f"'sha256-{base64.b64encode(hashlib.sha256(REPAIR_SCRIPT.encode()).digest()).decode()}'"
# For `st.html`.
SCRIPT_ELEMENT = f"<script>{REPAIR_SCRIPT}</script>"

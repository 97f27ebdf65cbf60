// Swagger UI for this API: "Authorize" takes an API key, "Try it out" sends requests, the field on top searches.
"use strict";
const says = (operation, words) => {
  const about = operation.get("operation");
  const text = [operation.get("method"), operation.get("path"), about.get("summary"), about.get("description")].join(" ");
  return words.every(word => text.toLowerCase().includes(word));
};
window.viewer = SwaggerUIBundle({
  url: new URL("../../openapi.json", document.currentScript.src).href,
  dom_id: "#viewer",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  queryConfigEnabled: false,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [() => ({ fn: { opsFilter: (tags, phrase) => {
    const words = phrase.toLowerCase().split(/\s+/).filter(word => word);
    return tags
      .map(tag => tag.set("operations", tag.get("operations").filter(operation => says(operation, words))))
      .filter(tag => tag.get("operations").size);
  } } })],
});

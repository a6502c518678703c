SwaggerUIBundle({
  url: "openapi.yaml",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
});

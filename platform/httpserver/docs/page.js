// exact formats JSON without changing its numbers: JavaScript's own round above 2^53.
function exact(text) {
  const keep = (key, value, { source }) => (typeof value === "number" ? JSON.rawJSON(source) : value);
  try {
    return JSON.stringify(JSON.parse(text, keep), null, 2);
  } catch {
    return text; // no JSON, or a browser without JSON.rawJSON
  }
}

// ExactNumbers hands answers of JSON to the UI as text, because it would parse and so round them.
const ExactNumbers = () => ({
  wrapComponents: {
    responseBody: (Original, { React }) => (props) =>
      React.createElement(Original, /json/i.test(props.contentType) && typeof props.content === "string"
        ? { ...props, content: exact(props.content), contentType: "text/plain" }
        : props),
  },
});

SwaggerUIBundle({
  url: "openapi.yaml",
  dom_id: "#swagger-ui",
  plugins: [ExactNumbers],
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
});

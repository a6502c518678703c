package prove

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"time"
)

//go:embed page.html
var pageText string

// WritePage writes the report as one HTML page that needs nothing else.
func (r *Report) WritePage(out io.Writer) error {
	tmpl := template.Must(template.New("page").Funcs(template.FuncMap{
		"list":    list,
		"seconds": func(d time.Duration) string { return round(d).String() },
		"picture": func(path string) (string, error) {
			text, err := os.ReadFile(path)
			return string(text), err
		},
	}).Parse(pageText))
	if err := tmpl.Execute(out, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// Of returns what the window found of a service; nil where it took no part.
func (w *WindowResult) Of(name string) *ServiceResult {
	i := slices.IndexFunc(w.Services, func(s ServiceResult) bool { return s.Service == name })
	if i < 0 {
		return nil
	}
	return &w.Services[i]
}

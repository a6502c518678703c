// Package style holds the look of the lab's pages: the live page and the proof's report.
package style

import (
	_ "embed" // the stylesheet
	"strings"
)

//go:embed style.css
var css string

// Into returns the page with the stylesheet in place of {{style}}, so that it needs no other file.
func Into(page string) string { return strings.Replace(page, "{{style}}", css, 1) }

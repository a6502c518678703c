package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Save writes the report's JSON form into the folder, named after the service, over that of the last time. It returns
// the file's path.
func (r *Report) Save(dir string) (file string, err error) {
	file = filepath.Join(dir, r.Options.Service+".json")
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = write(file, append(raw, '\n'))
	}
	if err != nil {
		return "", fmt.Errorf("save the report: %w", err)
	}
	return file, nil
}

// Load reads a report that [Report.Save] wrote.
func Load(file string) (*Report, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("read the report %s: %w", file, err)
	}
	return r, nil
}

// The lines of a page between which the section of a service stands.
const (
	sectionBegin = "<!-- bench %s -->\n"
	sectionEnd   = "<!-- end of bench -->\n"
)

// Publish puts the report's tables in place of the section of its service in a Markdown page, and the plot of its sweep
// into the folder beside the page with its name, as SERVICE.svg.
func (r *Report) Publish(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("publish the report: %w", err)
	}
	begin := fmt.Appendf(nil, sectionBegin, r.Options.Service)
	before, rest, _ := bytes.Cut(text, begin) // no rest where it is missing
	_, after, ended := bytes.Cut(rest, []byte(sectionEnd))
	if !ended {
		return fmt.Errorf("publish the report: %s lacks the line %q, or %q after it", page,
			bytes.TrimSpace(begin), strings.TrimSpace(sectionEnd))
	}
	folder, plot := strings.TrimSuffix(page, filepath.Ext(page)), r.Options.Service+".svg"
	section := r.markdown(path.Join(filepath.Base(folder), plot))
	err = os.WriteFile(page, slices.Concat(before, begin, section, []byte(sectionEnd), after), 0o644)
	if levels, _ := r.sweptPoints(); err == nil && len(levels) > 0 {
		err = write(filepath.Join(folder, plot), r.plot())
	}
	if err != nil {
		return fmt.Errorf("publish the report: %w", err)
	}
	return nil
}

// write writes a file, and its folder where it is missing.
func write(file string, content []byte) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, content, 0o644)
	}
	return err //nolint:wrapcheck // it names the file
}

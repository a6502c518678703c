// Package strictjson reads and writes the JSON of Rowlock's APIs. It decodes more strictly than encoding/json, because
// silently misreading a value is worse than refusing it, and it always encodes in the same form.
//
// github.com/go-json-experiment/json does the work. It refuses unknown and duplicate names, names in another case,
// invalid UTF-8 and numbers that do not fit. This package adds the rest: null is a wrong type, required members must be
// present, nesting is bounded, and a refusal is a [problem.Error] that names the wrong member.
package strictjson

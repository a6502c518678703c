// Package strictjson reads and writes the JSON of Rowlock's APIs. It decodes more strictly than encoding/json,
// because a value that is silently not what the client meant is worse than a refusal, and it encodes in one form.
//
// The work is done by github.com/go-json-experiment/json, which refuses unknown and duplicate names, names in another
// case, invalid UTF-8 and numbers that do not fit. This package adds what it lacks: null is a wrong type, a required
// member may not be missing, nesting is bounded, and a refusal is a [problem.Error] that names the member at fault.
package strictjson

package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonCodec is proto3's JSON with the names of the fields as the contract spells
// them and with zero values written out, as the callers of the Twirp service know
// them. It reads what every proto3 JSON parser does: both spellings of a name, a
// kind by name or number; but no unknown member.
type jsonCodec struct{}

// Name is a part of the Content-Type.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec. protojson puts spaces in on purpose, in other
// places with each build; they are taken out again.
func (jsonCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", message)
	}
	spaced, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", message, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, spaced); err != nil {
		return nil, fmt.Errorf("encode %T: %w", message, err)
	}
	return compact.Bytes(), nil
}

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", message)
	}
	if len(data) == 0 {
		return errEmptyBody
	}
	return protojson.Unmarshal(data, m) //nolint:wrapcheck // the client reads it, after connect's own words
}

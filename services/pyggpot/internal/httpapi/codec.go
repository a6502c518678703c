package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonCodec implements connect.Codec by proto3's JSON mapping, with the contract's spelling of names and with zero
// values, as callers of the Twirp service expect. Like every proto3 JSON parser it accepts both spellings of a name,
// and a kind by name or number, but no unknown member.
type jsonCodec struct{}

// Name returns the last part of the Content-Type.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec. It removes the spaces that protojson inserts at places that vary with the build.
func (jsonCodec) Marshal(message any) ([]byte, error) {
	options := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}
	spaced, err := options.Marshal(message.(proto.Message)) //nolint:errcheck // Connect's messages are
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", message, err)
	}

	var compact bytes.Buffer
	if err := json.Compact(&compact, spaced); err != nil {
		return nil, fmt.Errorf("encode %T: %w", message, err)
	}
	return compact.Bytes(), nil
}

// protobufCodec implements connect.Codec by protobuf's binary encoding, under the name that Twirp clients give it.
type protobufCodec struct{}

// Name returns the last part of the Content-Type.
func (protobufCodec) Name() string { return "protobuf" }

// Marshal implements connect.Codec.
func (protobufCodec) Marshal(message any) ([]byte, error) {
	return proto.Marshal(message.(proto.Message)) //nolint:errcheck // Connect's messages are
}

// Unmarshal implements connect.Codec.
func (protobufCodec) Unmarshal(data []byte, message any) error {
	return proto.Unmarshal(data, message.(proto.Message)) //nolint:errcheck // Connect's messages are
}

// decoded is the first byte of a message that was already decoded and follows in protobuf's binary encoding. No JSON
// begins with it.
const decoded = 0

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(data []byte, message any) error {
	m := message.(proto.Message) //nolint:errcheck // Connect's messages are
	switch {
	case len(data) == 0: // protojson's own text would vary with the build
		return errors.New("the body is empty; a JSON object is expected")
	case data[0] == decoded:
		return proto.Unmarshal(data[1:], m)
	}
	return protojson.Unmarshal(data, m)
}

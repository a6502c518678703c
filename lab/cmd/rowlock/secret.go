package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keptSecret returns the secret that the folder keeps for a variable: 64 hexadecimal digits in a file of the variable's
// name that only its owner can read. It makes the file where there is none.
func keptSecret(folder, variable string) (string, error) {
	file := filepath.Join(folder, strings.ToLower(strings.ReplaceAll(variable, "_", "-")))
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		var secret [32]byte
		rand.Read(secret[:]) // never fails: it ends the program instead
		kept = []byte(hex.EncodeToString(secret[:]) + "\n")
		err = os.WriteFile(file, kept, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("keep a secret for %s: %w", variable, err)
	}
	return strings.TrimSpace(string(kept)), nil
}

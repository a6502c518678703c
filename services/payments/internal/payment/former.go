package payment

import (
	"encoding/hex"
	"fmt"
)

// Fingerprints of releases before hmac-sha256-2 are compared, and no longer made, until
// the last of them is gone: the records expire, the ledger's settled entries are deleted.

// formerBareVersion is SHA-256 without a secret.
const formerBareVersion = "sha256-1"

// formerKeyedVersion returns the version under a secret, which it named by a MAC.
func formerKeyedVersion(secret []byte) string {
	const nameBytes = 4
	name := keyed(secret, []byte("rowlock payments: name of the secret"))
	return "hmac-sha256-1:" + hex.EncodeToString(name[:nameBytes])
}

// formerRequest returns the hashed form of a request, which had the security code in it.
func formerRequest(r Request) []byte {
	return formOf(r, fmt.Sprintf(`,"cvc":%q`, r.Card.CVC.Reveal()))
}

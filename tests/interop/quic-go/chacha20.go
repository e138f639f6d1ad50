// Leaves TLS_CHACHA20_POLY1305_SHA256 as the only TLS 1.3 cipher suite: crypto/tls has no option for it, but keeps these
// names reachable for this very use.
package main

import (
	"crypto/tls"
	"unsafe"
)

//go:linkname cipherSuitesTLS13 crypto/tls.cipherSuitesTLS13
var cipherSuitesTLS13 []unsafe.Pointer

//go:linkname defaultCipherSuitesTLS13 crypto/tls.defaultCipherSuitesTLS13
var defaultCipherSuitesTLS13 []uint16

//go:linkname defaultCipherSuitesTLS13NoAES crypto/tls.defaultCipherSuitesTLS13NoAES
var defaultCipherSuitesTLS13NoAES []uint16

// onlyChaCha20 must be called before the first TLS configuration is used.
func onlyChaCha20() {
	only := []uint16{tls.TLS_CHACHA20_POLY1305_SHA256}
	defaultCipherSuitesTLS13, defaultCipherSuitesTLS13NoAES = only, only
	cipherSuitesTLS13 = cipherSuitesTLS13[1:2] // crypto/tls orders them AES-128, ChaCha20, AES-256
}

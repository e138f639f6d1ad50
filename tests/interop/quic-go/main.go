// The interop peer on quic-go. The contract of environment, files, exit codes and evidence lines is in ../README.md.
package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// alpnHQ names HTTP/0.9 over QUIC: one "GET /path" line per bidirectional stream, the bare file as the answer.
const alpnHQ = "hq-interop"

// exitUnsupported reports to the runner that this stack lacks the case.
const exitUnsupported = 127

// The error code with which a request for a missing file is reset.
const codeNotFound = 0x404

// cases lists what quic-go can do; anything else exits with 127. `keyupdate` needs no call: quic-go updates its keys by
// itself after the first 100 packets.
var cases = map[string]bool{
	"handshake": true, "transfer": true, "multiplexing": true, "retry": true, "resumption": true, "zerortt": true,
	"http3": true, "keyupdate": true, "chacha20": true, "v2": true, "ecn": true, "transferloss": true,
}

func main() {
	testcase := os.Getenv("TESTCASE")
	if !cases[testcase] {
		fmt.Fprintf(os.Stderr, "quic-go peer: no such case: %q\n", testcase)
		os.Exit(exitUnsupported)
	}
	var err error
	switch role := append(os.Args, "")[1]; role {
	case "server":
		err = serve(testcase)
	case "client":
		err = fetch(testcase)
	default:
		err = errors.New("usage: quic-go-peer server|client")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go peer:", err)
		os.Exit(1)
	}
}

// quicConfig is what both roles set for a case.
func quicConfig(testcase string) *quic.Config {
	config := &quic.Config{Allow0RTT: testcase == "zerortt"}
	if testcase == "v2" {
		// quic-go has no compatible version negotiation (RFC 9368): its client starts in v2.
		config.Versions = []quic.Version{quic.Version2, quic.Version1}
	}
	return config
}

// tlsConfig is what both roles set for a case.
func tlsConfig(testcase string) (*tls.Config, error) {
	keyLog, err := keyLogWriter()
	if err != nil {
		return nil, err
	}
	if testcase == "chacha20" {
		onlyChaCha20()
	}
	alpn := alpnHQ
	if testcase == "http3" {
		alpn = http3.NextProtoH3
	}
	return &tls.Config{NextProtos: []string{alpn}, MinVersion: tls.VersionTLS13, KeyLogWriter: keyLog}, nil
}

// keyLogWriter opens SSLKEYLOGFILE, if set.
func keyLogWriter() (io.Writer, error) {
	name := os.Getenv("SSLKEYLOGFILE")
	if name == "" {
		return nil, nil
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

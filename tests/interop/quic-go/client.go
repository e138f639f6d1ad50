// The client role: fetches REQUESTS into DOWNLOADS.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

type client struct {
	testcase  string
	tls       *tls.Config
	quic      *quic.Config
	transport *quic.Transport
	server    net.Addr
	book      ledger
}

func fetch(testcase string) error {
	tlsConf, err := tlsConfig(testcase)
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(os.Getenv("CA"))
	if err != nil {
		return err
	}
	tlsConf.RootCAs = x509.NewCertPool()
	if !tlsConf.RootCAs.AppendCertsFromPEM(pem) {
		return errors.New("CA holds no certificate")
	}
	tickets := make(chan struct{}, 64)
	tlsConf.ClientSessionCache = &sessionCache{tls.NewLRUClientSessionCache(4), tickets}
	tlsConf.ServerName = "localhost"
	server, err := net.ResolveUDPAddr("udp", os.Getenv("SERVER"))
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	c := &client{testcase: testcase, tls: tlsConf, quic: quicConfig(testcase), server: server,
		transport: &quic.Transport{Conn: socket}}
	c.quic.Tracer = tracer
	defer c.book.printAll()

	urls := strings.Fields(os.Getenv("REQUESTS"))
	if testcase == "resumption" || testcase == "zerortt" {
		if err := c.connection(urls[:1], false, tickets); err != nil {
			return fmt.Errorf("first connection: %w", err)
		}
		return c.connection(urls[1:], testcase == "zerortt", nil)
	}
	return c.connection(urls, false, nil)
}

// connection fetches all URLs at once over one new connection, then waits for a session ticket if `tickets` is given.
func (c *client) connection(urls []string, early bool, tickets <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := c.book.next()
	conn, err := c.transport.DialEarly(context.WithValue(ctx, evidenceKey{}, e), c.server, c.tls, c.quic)
	if err != nil {
		return err
	}
	e.attach(conn)
	defer e.print()
	defer conn.CloseWithError(0, "")
	if !early {
		select {
		case <-conn.HandshakeComplete():
		case <-conn.Context().Done():
			return context.Cause(conn.Context())
		}
	}
	get := func(target *url.URL) (io.ReadCloser, error) { return requestHQ(ctx, conn, target) }
	if c.testcase == "http3" {
		transport := &http3.Transport{}
		h3 := transport.NewClientConn(conn)
		get = func(target *url.URL) (io.ReadCloser, error) { return requestHTTP3(ctx, h3, target) }
	}
	results := make(chan error, len(urls))
	for _, raw := range urls {
		go func() {
			e.countStream()
			results <- download(raw, get)
		}()
	}
	for range urls {
		if err := <-results; err != nil {
			return err
		}
	}
	if tickets != nil {
		select {
		case <-tickets:
		case <-time.After(5 * time.Second):
			return errors.New("no session ticket within 5 s")
		}
	}
	return nil
}

func download(raw string, get func(*url.URL) (io.ReadCloser, error)) error {
	target, err := url.Parse(raw)
	if err != nil {
		return err
	}
	body, err := get(target)
	if err != nil {
		return err
	}
	defer body.Close()
	file, err := os.Create(filepath.Join(os.Getenv("DOWNLOADS"), path.Base(target.Path)))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, body)
	return err
}

func requestHQ(ctx context.Context, conn *quic.Conn, target *url.URL) (io.ReadCloser, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(stream, "GET %s\r\n", target.Path); err != nil {
		return nil, err
	}
	return io.NopCloser(stream), stream.Close()
}

func requestHTTP3(ctx context.Context, h3 *http3.ClientConn, target *url.URL) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := h3.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", target, response.Status)
	}
	return response.Body, nil
}

// sessionCache reports when a ticket has come.
type sessionCache struct {
	tls.ClientSessionCache
	arrived chan<- struct{}
}

func (s *sessionCache) Put(key string, state *tls.ClientSessionState) {
	s.ClientSessionCache.Put(key, state)
	if state != nil {
		select {
		case s.arrived <- struct{}{}:
		default:
		}
	}
}

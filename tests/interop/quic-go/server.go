// The server role: files of WWW over hq-interop or HTTP/3.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func serve(testcase string) error {
	tlsConf, err := tlsConfig(testcase)
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(os.Getenv("CERT"), os.Getenv("KEY"))
	if err != nil {
		return err
	}
	tlsConf.Certificates = []tls.Certificate{cert}
	addr, err := net.ResolveUDPAddr("udp", os.Getenv("LISTEN"))
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", addr)
	if err != nil {
		return err
	}
	var book ledger
	config := quicConfig(testcase)
	config.Tracer = tracer
	transport := &quic.Transport{
		Conn:                socket,
		VerifySourceAddress: func(net.Addr) bool { return testcase == "retry" },
		ConnContext: func(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
			return context.WithValue(ctx, evidenceKey{}, book.next()), nil
		},
	}
	listener, err := transport.ListenEarly(tlsConf, config)
	if err != nil {
		return err
	}
	fmt.Printf("INTEROP listening=%s\n", socket.LocalAddr())

	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	for {
		conn, err := listener.Accept(stop)
		if err != nil {
			break
		}
		e, _ := conn.Context().Value(evidenceKey{}).(*evidence)
		e.attach(conn)
		go func() {
			if testcase == "http3" {
				serveHTTP3(conn, e)
			} else {
				serveHQ(conn, e)
			}
			<-conn.Context().Done()
			e.print()
		}()
	}
	book.printAll()
	return nil
}

func serveHTTP3(conn *quic.Conn, e *evidence) {
	files := http.FileServer(http.Dir(os.Getenv("WWW")))
	server := http3.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.countStream()
		files.ServeHTTP(w, r)
	})}
	_ = server.ServeQUICConn(conn)
}

func serveHQ(conn *quic.Conn, e *evidence) {
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		e.countStream()
		go func() {
			if err := answer(stream); err != nil {
				fmt.Fprintln(os.Stderr, "quic-go peer: stream", stream.StreamID(), err)
				stream.CancelWrite(codeNotFound)
				stream.CancelRead(codeNotFound)
			}
		}()
	}
}

func answer(stream *quic.Stream) error {
	line, err := bufio.NewReader(io.LimitReader(stream, 4096)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(line), "GET /")
	if !ok {
		return fmt.Errorf("not a GET line: %q", line)
	}
	file, err := os.Open(filepath.Join(os.Getenv("WWW"), filepath.FromSlash(path.Clean("/"+target))))
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(stream, file); err != nil {
		return err
	}
	return stream.Close()
}

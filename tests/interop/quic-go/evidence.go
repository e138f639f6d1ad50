// What really happened on a connection: counted from quic-go's own trace events, printed as one evidence line.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// evidence of one connection. It is a qlogwriter.Trace and the Recorder of it.
type evidence struct {
	number int
	conn   *quic.Conn
	trace  *qlogwriter.FileSeq

	mutex       sync.Mutex
	printed     bool
	retry       bool
	keyUpdates  int
	ecnSent     uint64
	ecnReceived uint64
	ecnAcked    uint64
	streams     int
}

type evidenceKey struct{}

// ledger hands out evidence in the order of connections and prints what is left at the end.
type ledger struct {
	mutex sync.Mutex
	all   []*evidence
}

func (l *ledger) next() *evidence {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	e := &evidence{number: len(l.all) + 1}
	l.all = append(l.all, e)
	return e
}

func (l *ledger) printAll() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, e := range l.all {
		e.print()
	}
}

// tracer looks the evidence up in the connection's context.
func tracer(ctx context.Context, isClient bool, odcid quic.ConnectionID) qlogwriter.Trace {
	if e, ok := ctx.Value(evidenceKey{}).(*evidence); ok {
		e.trace = openTrace(isClient, odcid)
		return e
	}
	return nil
}

func (e *evidence) AddProducer() qlogwriter.Recorder {
	if e.trace != nil {
		if file := e.trace.AddProducer(); file != nil {
			return recorder{e, file}
		}
	}
	return e
}

func (e *evidence) Close() error { return nil }

func (e *evidence) attach(conn *quic.Conn) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.conn = conn
}

func (e *evidence) countStream() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.streams++
}

func (e *evidence) RecordEvent(event qlogwriter.Event) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	switch ev := event.(type) {
	case qlog.PacketReceived:
		if ev.Header.PacketType == qlog.PacketTypeRetry {
			e.retry = true
		}
		if ev.ECN == qlog.ECT0 || ev.ECN == qlog.ECT1 || ev.ECN == qlog.ECNCE {
			e.ecnReceived++
		}
		for _, frame := range ev.Frames {
			if ack, ok := frame.Frame.(*qlog.AckFrame); ok && ev.Header.PacketType == qlog.PacketType1RTT {
				e.ecnAcked = max(e.ecnAcked, ack.ECT0+ack.ECT1+ack.ECNCE)
			}
		}
	case qlog.PacketSent:
		if ev.ECN == qlog.ECT0 || ev.ECN == qlog.ECT1 {
			e.ecnSent++
		}
	case qlog.ParametersSet:
		if ev.RetrySourceConnectionID.Len() > 0 {
			e.retry = true
		}
	case qlog.KeyUpdated:
		if ev.Trigger != qlog.KeyUpdateTLS && ev.KeyType == qlog.KeyTypeClient1RTT {
			e.keyUpdates++
		}
	}
}

// print writes the line once; later calls do nothing.
func (e *evidence) print() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.printed || e.conn == nil {
		return
	}
	e.printed = true
	state := e.conn.ConnectionState()
	early := "none"
	if state.Used0RTT {
		early = "accepted"
	}
	fmt.Fprintf(os.Stdout, "INTEROP conn=%d version=0x%08x cipher=0x%04x alpn=%s resumed=%d early_data=%s retry=%d "+
		"key_updates=%d ecn_sent=%d ecn_received=%d ecn_acked=%d streams=%d\n",
		e.number, uint32(state.Version), state.TLS.CipherSuite, state.TLS.NegotiatedProtocol, number(state.TLS.DidResume),
		early, number(e.retry), e.keyUpdates, e.ecnSent, e.ecnReceived, e.ecnAcked, e.streams)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

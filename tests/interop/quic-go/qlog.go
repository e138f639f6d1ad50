// The trace of a connection in QLOGDIR, line by line, so that a peer that is killed leaves what happened until then.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// recorder counts events as evidence and writes them to the trace.
type recorder struct {
	*evidence
	file qlogwriter.Recorder
}

func (r recorder) RecordEvent(event qlogwriter.Event) {
	r.evidence.RecordEvent(event)
	r.file.RecordEvent(event)
}

func (r recorder) Close() error { return r.file.Close() }

// lines hands whole lines to a file.
type lines struct {
	*bufio.Writer
	file *os.File
}

func (l lines) Write(data []byte) (int, error) {
	n, err := l.Writer.Write(data)
	if err == nil && bytes.HasSuffix(data, []byte("\n")) {
		err = l.Flush()
	}
	return n, err
}

func (l lines) Close() error {
	if err := l.Flush(); err != nil {
		return err
	}
	return l.file.Close()
}

// openTrace begins a trace in QLOGDIR; nil if that is not set.
func openTrace(isClient bool, odcid quic.ConnectionID) *qlogwriter.FileSeq {
	folder := os.Getenv("QLOGDIR")
	if folder == "" {
		return nil
	}
	side := "server"
	if isClient {
		side = "client"
	}
	file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%x_%s.sqlog", odcid.Bytes(), side)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go peer: no trace:", err)
		return nil
	}
	trace := qlogwriter.NewConnectionFileSeq(lines{bufio.NewWriter(file), file}, isClient, odcid)
	go trace.Run()
	return trace
}

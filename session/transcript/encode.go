package transcript

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Entries are encoded by hand, for an append does little else: to the same
// bytes as encoding/json would, but for JSON that was given, which has been
// found valid by then and is not read a second time.

// appendDoc adds the document of an entry. Fields that are empty are left out of it.
func appendDoc(b []byte, e NewEntry, parts []Part) ([]byte, error) {
	from := len(b)
	if len(parts) > 0 {
		b = append(b, `,"parts":[`...)
		for i, p := range parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendPart(b, p)
		}
		b = append(b, ']')
	}
	if len(e.Payload) > 0 {
		b = appendTight(append(b, `,"payload":`...), e.Payload)
	}
	var err error
	if e.Compaction != nil {
		b, err = appendAny(append(b, `,"compaction":`...), e.Compaction)
	}
	if e.State != nil && err == nil {
		b, err = appendAny(append(b, `,"state":`...), e.State)
	}
	if e.Usage != (Usage{}) && err == nil {
		b, err = appendAny(append(b, `,"usage":`...), &e.Usage)
	}
	if len(b) == from {
		return append(b, "{}"...), err
	}
	b[from] = '{'
	return append(b, '}'), err
}

// appendPart adds a part. Of a call it has only its id, name and arguments.
func appendPart(b []byte, p Part) []byte {
	b = appendText(append(b, `{"type":`...), p.Type)
	if len(p.Data) > 0 {
		b = appendTight(append(b, `,"data":`...), p.Data)
	}
	if c := p.Call; c != nil {
		b = appendText(append(b, `,"call":{"id":`...), string(c.ID))
		b = appendText(append(b, `,"name":`...), c.Name)
		b = append(append(b, `,"arguments":`...), c.Arguments...)
		b = append(b, `,"status":""}`...)
	}
	if p.Blob != nil {
		b = appendText(append(b, `,"blob":{"hash":`...), p.Blob.Hash)
		b = strconv.AppendInt(append(b, `,"size":`...), p.Blob.Size, 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendText adds a text, as it is where nothing in it needs a word.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, _ = appendAny(b, text) // a text is always JSON
			return b
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

// appendAny leaves out what only matters to browsers.
func appendAny(b []byte, v any) ([]byte, error) {
	text, err := marshal(v)
	return append(b, text...), err
}

// appendTight adds valid JSON without the white space between its tokens.
func appendTight(b, data []byte) []byte {
	for len(data) > 0 {
		tokens, rest := data, []byte(nil)
		if i := bytes.IndexByte(data, '"'); i >= 0 {
			tokens, rest = data[:i], data[i:]
		}
		for _, c := range tokens {
			if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
				b = append(b, c)
			}
		}
		n := quoted(rest)
		b, data = append(b, rest[:n]...), rest[n:]
	}
	return b
}

// quoted is how long the text in quotes is with which data begins.
func quoted(data []byte) int {
	for n := 1; n < len(data); n++ {
		i := bytes.IndexByte(data[n:], '"')
		if i < 0 {
			break
		}
		n += i
		escapes := 0 // in front of the quote: an odd number makes it part of the text
		for data[n-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return n + 1
		}
	}
	return len(data)
}

// marshal leaves out what only matters to browsers.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

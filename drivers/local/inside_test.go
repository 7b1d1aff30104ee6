//go:build linux

package local_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// insideVar, in the environment of this program, says what it is to try inside a sandbox: a task in a line.
const insideVar = "BUNKROOM_TEST_INSIDE"

// Marks of what it answers, among what package testing prints.
const (
	answerBegins = "<<<"
	answerEnds   = ">>>"
)

// TestInside is what runs inside a sandbox, when a test below has put this program there.
func TestInside(*testing.T) {
	for line := range strings.Lines(os.Getenv(insideVar)) {
		task := strings.Fields(line)
		var try func(args ...string) string
		for _, tries := range []map[string]func(args ...string) string{insideNetwork, kernelTries, setupTries} {
			if t, ok := tries[task[0]]; ok {
				try = t
			}
		}
		fmt.Println(answerBegins + strings.ReplaceAll(try(task[1:]...), "\n", " ") + answerEnds)
	}
}

// insideScript runs this program in a sandbox that tool was called for.
func insideScript(task string) string {
	exe, _ := os.Executable()
	return fmt.Sprintf("%s='%s' exec /workspace-agent/tool/%s -test.run='^TestInside$'", insideVar, task, filepath.Base(exe))
}

// tool puts this program into a sandbox, and returns what runs it there: it
// answers what the task has come to, and of several what each has, in a line.
func tool(t testing.TB, sb sandbox.Sandbox) func(task string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := sandbox.As[sandbox.Binder](sb)
	if _, err := b.Bind(deadline(t), filepath.Dir(exe), sandbox.BindRoot(sb)+"/tool"); err != nil {
		t.Fatal(err)
	}
	return func(task string) string {
		t.Helper()
		out := sh(t, sb, insideScript(task))
		var answers []string
		for out != "" {
			_, rest, begins := strings.Cut(out, answerBegins)
			answer, rest, ends := strings.Cut(rest, answerEnds)
			if !begins || !ends {
				break
			}
			answers, out = append(answers, answer), rest
		}
		if len(answers) != strings.Count(task, "\n")+1 {
			t.Fatalf("%s: answers %q in %q", task, answers, out)
		}
		return strings.Join(answers, "\n")
	}
}

// insideNetwork are tries of the network. Each answers in a line.
var insideNetwork = map[string]func(args ...string) string{
	"get":  func(a ...string) string { return request(http.MethodGet, a[0], "") },
	"post": func(a ...string) string { return request(http.MethodPost, a[0], a[1]) },
	"as": func(a ...string) string {
		conn, err := net.Dial("tcp", proxyOf())
		if err != nil {
			return said(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", a[1], a[0])
		return answer(http.ReadResponse(bufio.NewReader(conn), nil))
	},
	"tunnel": tunnel,
	"raw": func(a ...string) string {
		conn, err := net.Dial("tcp", proxyOf())
		if err != nil {
			return "no: " + err.Error()
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s\r\nHost: good.example.com\r\n\r\n", strings.Join(a, " "))
		return firstLine(conn)
	},
	"send": func(a ...string) string { // a text as url.QueryEscape writes it, to the proxy
		text, err := url.QueryUnescape(a[0])
		if err != nil {
			return said(err)
		}
		conn, err := net.Dial("tcp", proxyOf())
		if err != nil {
			return said(err)
		}
		defer conn.Close()
		io.WriteString(conn, text+"GET / HTTP/1.1\r\nHost: end\r\nConnection: close\r\n\r\n") // whoever hears that ends it
		all, _ := io.ReadAll(conn)
		var lines []string
		for line := range strings.Lines(string(all)) {
			if strings.HasPrefix(line, "HTTP/") || strings.HasPrefix(line, "to ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return strings.Join(lines, ", ")
	},
	"dial": func(a ...string) string {
		conn, err := net.DialTimeout("tcp", a[0], 5*time.Second)
		if err != nil {
			return "no: " + err.Error()
		}
		conn.Close()
		return "yes"
	},
	"hypervisor": func(...string) string { // whom no network keeps apart
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		if err != nil {
			return said(err)
		}
		return "a socket" + said(unix.Connect(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_HOST, Port: 1}))
	},
	"interfaces": func(...string) string {
		all, err := net.Interfaces()
		var names []string
		for _, i := range all {
			names = append(names, i.Name)
		}
		return strings.Join(names, " ") + said(err)
	},
	"serve": func(a ...string) string {
		l, err := net.Listen("tcp", a[0])
		if err != nil {
			return "no: " + err.Error()
		}
		fmt.Println("ready")
		for {
			conn, err := l.Accept()
			if err != nil {
				return err.Error()
			}
			conn.Close()
		}
	},
	"hold": func(a ...string) string {
		conn, err := net.Dial("tcp", proxyOf())
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", a[0])
		fmt.Println("ready " + firstLine(conn))
		io.Copy(io.Discard, conn)
		return "ended"
	},
	"crowd": func(a ...string) string {
		var n int
		fmt.Sscan(a[0], &n)
		lines := make([]string, n)
		var all sync.WaitGroup
		for i := range lines {
			all.Go(func() {
				conn, err := net.Dial("tcp", proxyOf())
				if err != nil {
					lines[i] = err.Error()
					return
				}
				conn.SetReadDeadline(time.Now().Add(2 * time.Second))
				lines[i] = firstLine(conn) // and it stays open
			})
		}
		all.Wait()
		stay, told := 0, ""
		for _, l := range lines {
			if strings.HasPrefix(l, "HTTP/") {
				told = l
			} else {
				stay++
			}
		}
		return fmt.Sprintf("%d stay, %d are told %s", stay, n-stay, told)
	},
}

func said(err error) string {
	if err != nil {
		return "no: " + err.Error()
	}
	return ""
}

// proxyOf is the address of the proxy that the environment names.
func proxyOf() string {
	u, _ := url.Parse(os.Getenv("https_proxy"))
	return u.Host
}

func firstLine(r io.Reader) string {
	line, _ := bufio.NewReader(r).ReadString('\n')
	return strings.TrimSpace(line)
}

// request asks for a URL through the proxy, and follows nothing. It answers the status and the body.
func request(method, to, body string) string {
	r, err := http.NewRequest(method, to, strings.NewReader(body))
	if err != nil {
		return said(err)
	}
	r.Header.Set("Proxy-Authorization", "secret")
	client := http.Client{
		Transport:     &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(os.Getenv("http_proxy")) }},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return answer(client.Do(r))
}

func answer(r *http.Response, err error) string {
	if err != nil {
		return said(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%d %s", r.StatusCode, bytes.TrimSuffix(text, []byte("\n"))) + said(err)
}

// tunnel opens a tunnel and, where a URL is given, asks for it in there.
func tunnel(a ...string) string {
	conn, err := net.Dial("tcp", proxyOf())
	if err != nil {
		return said(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", a[0])
	r := bufio.NewReader(conn)
	opened, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return said(err)
	}
	if opened.StatusCode != http.StatusOK || len(a) < 2 {
		return opened.Status
	}
	ask, err := http.NewRequest(http.MethodGet, a[1], nil)
	if err == nil {
		err = ask.Write(conn)
	}
	if err != nil {
		return said(err)
	}
	return answer(http.ReadResponse(r, ask))
}

// hostScript is insideScript where processes see the host's own paths.
func hostScript(t testing.TB, task string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s='%s' exec %s -test.run='^TestInside$'", insideVar, task, exe)
}

// toolOnHost is tool there.
func toolOnHost(t testing.TB, sb sandbox.Sandbox) func(task string) string {
	return func(task string) string {
		t.Helper()
		_, out, _ := strings.Cut(sh(t, sb, hostScript(t, task)), answerBegins)
		out, _, _ = strings.Cut(out, answerEnds)
		return out
	}
}

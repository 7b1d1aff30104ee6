package geesefs

import (
	"context"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// The scripts are constant. What they work on comes as arguments, and no value
// is ever part of a script's text, so that there is nothing to quote.

// What prepareScript exits with where the sandbox can't have such mounts.
const (
	exitNoFuse    = 126
	exitNoProgram = 127
)

// prepareScript: target, directory for credentials, program. It prints what
// the directory is called.
const prepareScript = `mkdir -p "$1" "$2" && chmod 700 "$2" || exit 1
command -v "$3" >/dev/null || exit 127
[ -c /dev/fuse ] || exit 126
cd "$2" && pwd`

// launchScript: file for the process id, file for what it says, program and
// arguments. The program takes the place of the shell.
const launchScript = `umask 077
echo $$ >"$1" || exit 1
exec >"$2" 2>&1 </dev/null
shift 2
exec "$@"`

// probeScript: target. What is mounted and dead does not list.
const probeScript = `mountpoint -q "$1" && ls "$1" >/dev/null`

// tailScript: file, bytes.
const tailScript = `tail -c "$2" "$1"`

// stopScript: target, directory with the process id, seconds for writing out.
// It unmounts, waits for the program to end, ends it, and looks. The process
// with the id counts only as long as it has the directory in its arguments.
const stopScript = `lazily() { fusermount3 -u -z "$1" || fusermount -u -z "$1" || umount -l "$1"; }
{ fusermount3 -u "$1" || fusermount -u "$1" || lazily "$1"; } 2>/dev/null
pid=
if [ -r "$2/pid" ]; then read -r pid <"$2/pid"; fi
at=$2
alive() { [ -n "$pid" ] && grep -q -F -e "$at/" "/proc/$pid/cmdline" 2>/dev/null; }
await() { n=$(($1 * 10)); while alive && [ "$n" -gt 0 ]; do sleep 0.1; n=$((n - 1)); done; ! alive; }
await "$3" || { kill -TERM "$pid"; await 2; } || { kill -KILL "$pid"; await 2; } || exit 2
mounted() { mountpoint -q "$1" 2>/dev/null || grep -q -F -e " $1 " /proc/self/mountinfo; }
! mounted "$1" || { lazily "$1" 2>/dev/null; ! mounted "$1"; }`

// refreshScript: target.
const refreshScript = `if command -v setfattr >/dev/null; then exec setfattr -n .invalidate "$1"; fi
exec python3 -c 'import os, sys; os.setxattr(sys.argv[1], ".invalidate", b"")' "$1"`

// run runs a script with arguments in a sandbox within limit, and returns the
// end of what it wrote.
func run(ctx context.Context, sb sandbox.Sandbox, limit time.Duration, script string, args ...string) (string, sandbox.Exit, error) {
	bounded, cancel := context.WithTimeout(ctx, limit+sandbox.DefaultKillGrace+sandbox.DrainLimit)
	defer cancel()
	var out tail
	exit, err := sandbox.Run(bounded, sb, sandbox.Cmd{
		Argv: append([]string{"sh", "-c", script, "sh"}, args...), Timeout: limit,
	}, &out, &out)
	return strings.ToValidUTF8(out.String(), "�"), exit, err
}

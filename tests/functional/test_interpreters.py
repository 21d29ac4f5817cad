"""Ordinary programs in other languages than Python do in a sandbox what they do outside: each script below
makes processes, threads, sockets, pipes, timers, signals, files, locale and compression work, and says so."""

import pytest

PERL = r"""
use strict; use warnings; use utf8;
use Socket; use IO::Socket::INET; use IO::Select; use IPC::Open3; use POSIX; use Fcntl qw(:flock);
use File::Temp qw(tempfile); use File::Copy; use Time::HiRes qw(ualarm usleep); use Compress::Zlib;
use Encode; use Digest::SHA qw(sha256_hex); use Storable; use threads; use threads::shared;

sub check { my ($name, $good) = @_; die "$name: $!\n" unless $good }

my $pid = fork; exit 7 unless $pid;
waitpid $pid, 0; check "fork", $? >> 8 == 7;
check "exec", `echo a` eq "a\n";
my $child = open3(my $in, my $out, undef, "sort"); print $in "b\na\n"; close $in;
check "open3", join("", <$out>) eq "a\nb\n"; waitpid $child, 0;
my $sum : shared = 0;
$_->join for map { my $n = $_; threads->create(sub { lock $sum; $sum += $n }) } 1 .. 4;
check "threads", $sum == 10;
my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die "listen: $!";
if (!fork) { my $c = IO::Socket::INET->new("127.0.0.1:" . $server->sockport); print $c "ping\n"; exit 0 }
check "tcp", $server->accept->getline eq "ping\n"; wait;
socketpair(my $left, my $right, AF_UNIX, SOCK_STREAM, PF_UNSPEC); syswrite $left, "x";
check "select", IO::Select->new($right)->can_read(5);
my $alarms = 0; $SIG{ALRM} = sub { $alarms++ }; ualarm 1000; my $end = time + 5;
usleep 1000 until $alarms || time > $end; check "ualarm", $alarms;
my $hits = 0; $SIG{USR1} = sub { $hits++ }; kill USR1 => $$; check "signal", $hits == 1;
my ($file, $path) = tempfile(DIR => "/workspace"); flock($file, LOCK_EX | LOCK_NB) or die "flock: $!";
print $file "data"; close $file; copy($path, "copy"); chmod 0600, "copy"; rename "copy", "moved";
check "files", -s "moved" == 4 && ((stat "moved")[2] & 0777) == 0600; symlink "moved", "link"; check "link", -l "link";
check "fifo", mkfifo("fifo", 0600);
check "zlib", uncompress(compress("z" x 9999)) eq "z" x 9999;
check "locale", setlocale(LC_ALL, "") =~ /UTF-8|utf8/; check "utf-8", length(decode_utf8("\xc3\xa4")) == 1;
check "user", (getpwuid $<)[0] eq "sandbox";
check "digest", sha256_hex("") =~ /^e3b0c442/;
store([1], "stored"); check "storable", retrieve("stored")->[0] == 1;
print "good\n";
"""

RUBY = r"""
require "socket"; require "open3"; require "tempfile"; require "timeout"; require "zlib"; require "json"
require "fileutils"; require "digest"; require "etc"; require "pty"

def check(name, good) = good || raise("#{name} failed")

pid = fork { exit! 7 }
check "fork", Process.wait2(pid)[1].exitstatus == 7
check "exec", `echo a` == "a\n"
check "open3", Open3.capture2("sort", stdin_data: "b\na\n")[0] == "a\nb\n"
check "spawn", Process.wait2(Process.spawn("exit 3"))[1].exitstatus == 3
check "threads", (1..8).map { |n| Thread.new { n } }.sum(&:value) == 36
queue = Queue.new; Thread.new { queue << 1 }; check "queue", queue.pop == 1
server = TCPServer.new("127.0.0.1", 0)
client = Thread.new { TCPSocket.open("127.0.0.1", server.addr[1]) { |s| s.puts "ping"; s.gets } }
server.accept.then { |s| check "tcp", s.gets == "ping\n"; s.puts "pong" }
check "pong", client.value == "pong\n"
UNIXServer.open("/tmp/socket") do |u|
  left = UNIXSocket.new("/tmp/socket"); right = u.accept
  r, w = IO.pipe; left.send_io(w); right.recv_io.tap { |io| io.puts "passed"; io.close }; w.close
  check "descriptor", r.gets == "passed\n"
end
check "timeout", begin
  Timeout.timeout(0.01) { sleep }
rescue Timeout::Error
  true
end
hits = Queue.new; trap("USR1") { hits << 1 }; Process.kill("USR1", $$); check "signal", hits.pop == 1
r, w = IO.pipe; w << "x"; check "select", IO.select([r], nil, nil, 5)
Tempfile.create { |f| f.flock(File::LOCK_EX); f << "data"; f.flush; FileUtils.cp(f.path, "copy") }
File.chmod(0600, "copy"); File.rename("copy", "moved"); File.symlink("moved", "link"); File.mkfifo("fifo")
check "files", File.size("link") == 4 && File.stat("moved").mode & 0777 == 0600
check "zlib", Zlib.gunzip(Zlib.gzip("z" * 9999)).size == 9999
check "locale", Encoding.default_external == Encoding::UTF_8
check "user", Etc.getpwuid.name == "sandbox"
check "digest", Digest::SHA256.hexdigest("").start_with?("e3b0c442")
check "fiber", Fiber.new { Fiber.yield 1; 2 }.then { |f| [f.resume, f.resume] } == [1, 2]
check "clock", Process.clock_gettime(Process::CLOCK_MONOTONIC) > 0
check "daemon", Process.wait2(fork { Process.daemon(true); exit! })[1].success?
puts "good"
"""

NODE = r"""
const assert = require("assert"), fs = require("fs"), net = require("net"), os = require("os"), zlib = require("zlib");
const http = require("http"), crypto = require("crypto"), { once } = require("events");
const { Worker } = require("worker_threads"), child = require("child_process");
const { setTimeout: later } = require("timers/promises"), dns = require("dns").promises;

// Nothing else keeps the loop going while it waits for a signal.
const alive = setInterval(() => 0, 1000);

async function main() {
  assert.equal(child.execSync("echo a").toString(), "a\n");
  const sort = child.spawn("sort"); sort.stdin.end("b\na\n");
  assert.equal((await sort.stdout.toArray()).join(""), "a\nb\n");
  fs.writeFileSync("forked.js", "process.on('message', m => { process.send(m + 1); process.disconnect() })");
  const forked = child.fork("./forked.js"); forked.send(1);
  assert.equal((await once(forked, "message"))[0], 2);
  assert.equal(child.spawnSync("sh", ["-c", "kill -9 $$"]).signal, "SIGKILL");
  const shared = new SharedArrayBuffer(4);
  const code = "Atomics.add(new Int32Array(require('worker_threads').workerData), 0, 1)";
  await Promise.all([1, 2].map(() => once(new Worker(code, { eval: true, workerData: shared }), "exit")));
  assert.equal(new Int32Array(shared)[0], 2);
  for (const address of [{ host: "127.0.0.1", port: 0 }, { host: "::1", port: 0 }, { path: "/tmp/socket" }]) {
    const server = net.createServer(s => s.end("pong")).listen(address); await once(server, "listening");
    const to = address.path ? address : { host: address.host, port: server.address().port };
    assert.equal((await net.connect(to).toArray()).join(""), "pong"); server.close();
  }
  const web = http.createServer((q, r) => r.end(q.url)).listen(0, "127.0.0.1"); await once(web, "listening");
  assert.equal(await (await fetch(`http://127.0.0.1:${web.address().port}/x`)).text(), "/x");
  web.closeAllConnections(); web.close();
  assert.equal((await dns.lookup("localhost", 4)).address, "127.0.0.1");
  const signal = once(process, "SIGUSR2"); process.kill(process.pid, "SIGUSR2"); await signal;
  await later(5); const timer = setInterval(() => 0, 1); clearInterval(timer);
  fs.mkdirSync("a/b", { recursive: true }); fs.writeFileSync("a/b/f", "data", { mode: 0o600 });
  fs.cpSync("a", "c", { recursive: true }); fs.renameSync("c/b/f", "moved"); fs.symlinkSync("moved", "link");
  assert.equal(fs.readFileSync("link", "utf8"), "data"); assert.equal(fs.statSync("moved").mode & 0o777, 0o600);
  const watcher = fs.watch("."); const seen = once(watcher, "change"); fs.writeFileSync("new", ""); await seen; watcher.close();
  for await (const chunk of fs.createReadStream("moved")) assert.equal(chunk.toString(), "data");
  assert.equal(zlib.gunzipSync(zlib.gzipSync("z".repeat(9999))).length, 9999);
  assert.equal(zlib.brotliDecompressSync(zlib.brotliCompressSync("b")).toString(), "b");
  assert.ok(crypto.createHash("sha256").digest("hex").startsWith("e3b0c442"));
  assert.equal(crypto.pbkdf2Sync("a", "b", 10, 8, "sha1").length, 8);
  assert.equal(new Intl.NumberFormat("de").format(1234.5), "1.234,5");
  assert.equal(os.userInfo().username, "sandbox"); assert.ok(os.cpus().length && os.totalmem() && os.networkInterfaces().lo);
  assert.ok(process.memoryUsage().rss && process.resourceUsage().maxRSS);
  assert.equal(await WebAssembly.instantiate(Buffer.from("AGFzbQEAAAA=", "base64")).then(() => 1), 1);
  console.log("good");
}
main().catch(error => { console.error(error); process.exitCode = 1 }).finally(() => clearInterval(alive));
"""

SHELL = r"""#!/bin/bash
set -euo pipefail
check() { local name=$1; shift; "$@" || { echo "$name failed" >&2; exit 1; }; }

check pipes [ "$(seq 100 | tac | sort -n | sed -n 5p)" = 5 ]
check substitution [ "$(cat <(echo a) <(echo b) | tr -d '\n')" = ab ]
sleep 100 & kill $!; status=0; wait $! || status=$?; check signal [ $status = 143 ]
trap 'hit=1' USR1; kill -USR1 $$; check trap [ "$hit" = 1 ]
status=0; timeout 0.1 sleep 100 || status=$?; check timeout [ $status = 124 ]
check xargs [ "$(seq 8 | xargs -P 4 -n 1 echo | wc -l)" = 8 ]
coproc CAT { cat; }; echo x >&"${CAT[1]}"; read -r line <&"${CAT[0]}"; check coproc [ "$line" = x ]
mkfifo fifo; echo through >fifo & read -r line <fifo; check fifo [ "$line" = through ]
file=$(mktemp); echo data >"$file"; cp -a "$file" copy; mv copy moved; ln -s moved link; ln moved hard
check files [ "$(cat link hard)" = $'data\ndata' ]
(flock -n 9 && ! flock -n moved true) 9>moved; check flock true
truncate -s 1G sparse; check sparse [ "$(du -k sparse | cut -f 1)" = 0 ]; rm sparse
dd if=/dev/zero of=zeros bs=64k count=16 conv=fsync status=none; sync zeros; sync
tar -czf all.tar.gz moved zeros; mkdir out; tar -xzf all.tar.gz -C out; check tar cmp zeros out/zeros
for tool in gzip bzip2 xz; do [ -x "$(command -v $tool)" ] || continue; $tool -k zeros; check $tool test -s zeros.??*; rm zeros.??*; done
find . -name 'zer*' -newer moved -print0 | xargs -0 sha256sum | grep -q zeros
check locale [ "$(locale charmap)" = UTF-8 ]
check unicode [ "$(printf 'ä' | wc -m)" = 1 ]
check date [ "$(date -u -d @0 +%Y)" = 1970 ]
check user [ "$(id -un):$(whoami)" = sandbox:sandbox ]
exec 3<>/dev/tcp/127.0.0.1/1 2>/dev/null && exit 1
ps aux >ps; free >free; df >df; nproc >nproc; uptime >uptime; uname -a >uname; env >env; ulimit -a >ulimit
nice -n 5 true; nohup true >nohup 2>&1; setsid -w true; stdbuf -oL true; chrt -o 0 true; taskset -c 0 true; ionice true
check awk [ "$(awk 'BEGIN { "echo 3" | getline x; print x * 2 }')" = 6 ]
check heredoc [ "$(bash -s <<<'echo $((6 * 7))')" = 42 ]
echo good
"""

C = r"""#!/bin/bash
set -e
cat >program.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <spawn.h>
#include <sys/wait.h>
static void *add(void *n) { __atomic_fetch_add((int *)n, 1, __ATOMIC_SEQ_CST); return 0; }
int main(void)
{
    int n = 0, status;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, add, &n);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    pid_t pid;
    char *const argv[] = { "true", 0 };
    if (posix_spawnp(&pid, "true", 0, 0, argv, 0) || waitpid(pid, &status, 0) != pid || status) return 1;
    puts(n == 8 ? "good" : "bad");
}
END
gcc -O2 -pthread -fsanitize=undefined -o program program.c 2>errors || gcc -O2 -pthread -o program program.c
./program
"""

SCRIPTS = {"perl.pl": PERL, "ruby.rb": RUBY, "node.js": NODE, "shell.sh": SHELL, "c.sh": C}


@pytest.mark.parametrize("name", SCRIPTS)
def test_ordinary_program_works(machine, name):
    result = machine.sbxctl(["run", machine.script(SCRIPTS[name], name=name)])
    assert (result.text, result.status) == ("good\n", 0), result.errors

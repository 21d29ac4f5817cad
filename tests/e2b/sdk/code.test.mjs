// The code interpreter: cells, their results in every format, errors, contexts, charts.

import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'

import { NotFoundError, Sandbox, SandboxError, TimeoutError } from '@e2b/code-interpreter'

import { StandIn } from './stand_in.mjs'

// A refused cell leaves the SDK's timer for the request behind, which keeps node from ending.
const SOON = { requestTimeoutMs: 2_000 }

let standIn
let sandbox
before(async () => {
  standIn = await StandIn.start()
  sandbox = await Sandbox.create({ envs: { EVERYWHERE: 'yes' } })
})
afterEach(() => standIn.control('DELETE', '/faults'))
after(() => standIn.stop())

test('a cell has output, a result and a number', async () => {
  const first = await sandbox.runCode('import sys\nprint("out")\nprint("err", file=sys.stderr)\nx = 6\nx * 7')
  assert.equal(first.text, '42')
  assert.equal(first.results[0].isMainResult, true)
  assert.deepEqual(first.logs, { stdout: ['out\n'], stderr: ['err\n'] })
  const second = await sandbox.runCode('"x is " + str(x)')
  assert.equal(second.text, 'x is 6')
  assert.equal(second.executionCount, first.executionCount + 1)
  assert.deepEqual((await sandbox.runCode('x;')).results, [])
})

test('what a child prints is output, too', async () => {
  const { logs } = await sandbox.runCode('import subprocess\nsubprocess.run(["echo", "child"])\n!echo shell\nNone')
  assert.equal(logs.stdout.join(''), 'child\nshell\n')
})

test('callbacks hear what comes while it comes', async () => {
  const heard = []
  await sandbox.runCode('import time\nprint("one", flush=True)\ntime.sleep(0.3)\nprint("two")\n3', {
    onStdout: (message) => heard.push(message.line), onResult: (result) => heard.push(result.text),
  })
  assert.deepEqual(heard, ['one\n', 'two\n', '3'])
})

test('an error has name, value and traceback', async () => {
  const { error } = await sandbox.runCode('def f():\n    return 1 / 0\nf()')
  assert.deepEqual([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
  assert.match(error.traceback, /return 1 \/ 0/)
  const syntax = await sandbox.runCode('def (')
  assert.equal(syntax.error.name, 'SyntaxError')
  const import_ = await sandbox.runCode('import no_such_module')
  assert.equal(import_.error.name, 'ModuleNotFoundError')
})

test('results come in the formats of their objects', async () => {
  const { results } = await sandbox.runCode(`
from IPython.display import HTML, SVG, JSON, Markdown, Latex, Image, display
display(HTML("<b>x</b>"), SVG("<svg/>"), JSON({"a": [1]}), Markdown("# x"), Latex("$x$"), Image(data=b"\\x89PNG"))
class Both:
    def __repr__(self): return "both"
    def _repr_html_(self): return "<i>both</i>"
    def _repr_mimebundle_(self): return {"application/vnd.x": "extra"}
Both()`)
  assert.deepEqual(results.slice(0, 6).map((result) => result.formats()), [['html'], ['svg'], ['json'], ['markdown'], ['latex'], ['png']])
  assert.deepEqual(results.map((result) => result.isMainResult), [false, false, false, false, false, false, true])
  assert.deepEqual(results[2].json, { a: [1] })
  assert.equal(Buffer.from(results[5].png, 'base64').toString('latin1'), '\x89PNG')
  assert.deepEqual([results[6].text, results[6].html, results[6].raw.extra], ['both', '<i>both</i>', { 'application/vnd.x': 'extra' }])
})

test('a figure is a picture and a chart', async () => {
  const { results, error } = await sandbox.runCode(`
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [4, 5, 6], label="line")
plt.title("A title")
plt.xlabel("x")
plt.show()
plt.bar(["a", "b"], [1, 2])
plt.show()`)
  assert.equal(error, undefined)
  assert.equal(results.length, 2)
  assert.equal(Buffer.from(results[0].png, 'base64').subarray(1, 4).toString(), 'PNG')
  assert.deepEqual([results[0].chart.type, results[0].chart.title, results[0].chart.x_label], ['line', 'A title', 'x'])
  assert.deepEqual(results[0].chart.elements[0].points, [['1', 4], ['2', 5], ['3', 6]])
  assert.deepEqual([results[1].chart.type, results[1].chart.elements[1].label], ['bar', 'b'])
})

test('environment of a cell, and of the sandbox', async () => {
  const code = 'import os\n(os.environ["EVERYWHERE"], os.environ.get("HERE"))'
  assert.equal((await sandbox.runCode(code, { envs: { HERE: 'too' } })).text, "('yes', 'too')")
  assert.equal((await sandbox.runCode(code)).text, "('yes', None)")
})

test('contexts know nothing of each other', async () => {
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  assert.deepEqual([context.language, context.cwd], ['python', '/tmp'])
  await sandbox.runCode('y = 1', { context })
  assert.equal((await sandbox.runCode('y')).error.name, 'NameError')
  assert.equal((await sandbox.runCode('import os\n(y, os.getcwd())', { context })).text, "(1, '/tmp')")
  assert.ok((await sandbox.listCodeContexts()).some((listed) => listed.id === context.id))
  await sandbox.restartCodeContext(context)
  assert.equal((await sandbox.runCode('y', { context })).error.name, 'NameError')
  await sandbox.removeCodeContext(context)
  await assert.rejects(sandbox.runCode('1', { context, ...SOON }), NotFoundError)
})

test('cells share files with commands', async () => {
  await sandbox.files.write('data.csv', 'a,b\n1,2\n')
  assert.equal((await sandbox.runCode('open("data.csv").read()')).text, 'a,b\\n1,2\\n')
  await sandbox.runCode('with open("made", "w") as f: f.write("by the cell")')
  assert.equal(await sandbox.files.read('made'), 'by the cell')
})

test('a cell that takes too long is given up, and interrupted', async () => {
  await assert.rejects(sandbox.runCode('import time\ntime.sleep(60)', { timeoutMs: 500 }), TimeoutError)
  assert.equal((await sandbox.runCode('1')).text, '1')
})

test('a cell that ends its kernel', async () => {
  const { error } = await sandbox.runCode('import os\nos._exit(1)')
  assert.equal(error.name, 'UnexpectedEndOfExecution')
  assert.equal((await sandbox.runCode('2')).text, '2')
})

test('a sandbox that is lost under a cell', async () => {
  const other = await Sandbox.create()
  await standIn.fault({ on: 'execute', do: 'vanish', after: 2 })
  await assert.rejects(other.runCode('print(1, flush=True)\nimport time\ntime.sleep(0.2)\nprint(2)'), TimeoutError)
})

test('a template without the interpreter', async () => {
  const plain = await Sandbox.create('base')
  await assert.rejects(plain.runCode('1', SOON), /port is not open/)
})

test('a language that is not there', async () => {
  await assert.rejects(sandbox.runCode('1', { language: 'cobol', ...SOON }), SandboxError)
})

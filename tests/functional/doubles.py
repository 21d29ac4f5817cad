"""Runs with a double in the place of a service (engine_double.py, egress_double.py): how it is started, and
that nothing stays of them."""

import json
import textwrap


class Doubles:
    """With the helper as it was before, and has to be after each run."""

    def __init__(self, machine):
        self.machine = machine
        self.descriptors = self.held()

    def held(self):
        """The helper's descriptors."""
        return self.machine.descriptors(self.machine.main_pid())

    def start(self, module, argument, scenario, words):
        """Starts a double: `scenario` is the body of its function of one argument."""
        code = f"from {module} import *\ndef scenario({argument}):\n"
        code += textwrap.indent(textwrap.dedent(scenario), "    ") + f"\nserve({words})"
        playing = self.machine.popen(self.machine.python(code))
        assert playing.popen.stdout.readline() == b"up\n", playing.finish()
        return playing

    def runs(self, *options):
        return json.loads(self.machine.sbxctl(["ps", "--json", *options]).stdout)["runs"]

    def last_run(self):
        return self.runs("--all")[0]

    def all_is_well(self):
        """No run is stuck, nothing is left, and others are served."""
        self.machine.wait_for(lambda: self.runs() == [], 5, "the run to be over")
        assert self.machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
        self.machine.wait_for(lambda: self.held() == self.descriptors, 5, "the helper's descriptors to be closed")
        assert self.machine.run(["ls", "-A", "/var/lib/sbxctl/staging"]).text == ""

"""Whether hints are right for scripts that nobody had in mind when they were written."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from failing_scripts import FILES, SCRIPTS


@pytest.mark.long  # takes a minute
def test_forty_failing_scripts_get_the_right_hint(machine):
    directory = machine.directory()
    for name, content in FILES.items():
        machine.write(f"{directory}/{name}", content, "alice")
    given = [word for name in FILES for word in ("--file", f"{directory}/{name}")]

    def hint(script):
        name, options, code, words = script
        result = machine.run_json([*given, *options, "-c", code], timeout=120)
        assert result["status"] != "succeeded", (name, result)
        return name, words, result.get("hint", ""), result["stderr"]["text"][-600:]

    # As many at once as a user may have.
    with ThreadPoolExecutor(2) as pool:
        hints = list(pool.map(hint, SCRIPTS))
    assert len(hints) == 40
    missed = [told for told in hints if told[1] not in told[2]]
    wrong = [told for told in missed if told[2]]
    assert not wrong, wrong
    assert len(missed) <= 4, missed

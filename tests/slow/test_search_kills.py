"""A search that is stopped by Ctrl-C, or killed at any moment, is resumed and loses at most its running trials."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from squad.search.storage import MAX_RETRIES
from tests.cli.conftest import Run
from tests.cli.test_search import LONG, check_whole, params, started, states, trials, wait


def test_ctrl_c(here: Path, run: Run) -> None:
    process = started(*LONG)
    wait(process, here / "study", 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "squad: stopped; the same command resumes study."
    assert "Traceback" not in err
    assert states(here / "study")["running"] == 0
    assert (here / "study/trials.json").exists()
    assert run(*LONG).code == 0
    check_whole(here / "study", 9)


def test_sigterm(here: Path, run: Run) -> None:
    """Docker and Slurm stop processes with SIGTERM: no trial counts as lost, and the exit code is 143."""
    process = started(*LONG)
    wait(process, here / "study", 1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert err.splitlines()[-1] == "squad: stopped; the same command resumes study."
    assert "Traceback" not in err
    assert states(here / "study")["running"] == 0
    assert states(here / "study")["waiting"] > 0
    assert run(*LONG).code == 0
    check_whole(here / "study", 9)


#: Kills the command at several moments of its start, and then whenever a trial has ended and others are running.  It
#: imports everything once and forks for each run, which then starts its first trial in a fraction of a second.
KILLER = """
import json, os, signal, sqlite3, sys, time
from pathlib import Path
from squad.cli import main
from tests.cli.test_search import database

arguments, moments, halfway = json.loads(sys.argv[1])
quiet = os.open(os.devnull, os.O_WRONLY)
os.dup2(quiet, 2)
answer = os.dup(1)
os.dup2(quiet, 1)
main([*arguments, "--out", "warm", "--trials", "1", "--max-epochs", "2"])


def complete():
    connection = sqlite3.connect("study/study.db")
    found = connection.execute(
        "SELECT number, value FROM trials JOIN trial_values USING (trial_id) WHERE state = 'COMPLETE'"
    ).fetchall()
    connection.close()
    return found


def live(wait):
    child = os.fork()
    if not child:
        os._exit(main(arguments))
    wait(child)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def more(child):
    before = database(Path("study"))["COMPLETE"]
    while not ((now := database(Path("study")))["COMPLETE"] > before and now["RUNNING"]):
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.002)


codes = [live(lambda child: time.sleep(moment)) for moment in moments]
kept = []
for _ in range(halfway):
    codes.append(live(more))
    kept.append(complete())
os.write(answer, json.dumps([codes, kept]).encode())
"""


def test_killed_at_any_moment(run: Run, here: Path) -> None:
    moments, halfway = [0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3], 3
    argument = json.dumps([LONG, moments, halfway])
    root = Path(__file__).parents[2]
    killer = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{KILLER}", argument],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    codes, kept = json.loads(killer.stdout)
    assert codes == [-signal.SIGKILL] * (len(moments) + halfway)
    assert [len(found) for found in kept] == sorted({len(found) for found in kept})  # each run got further
    # What anybody sees meanwhile, from the study's own file.
    assert f"{len(kept[-1])} measured" in run("search", "show", "study", "--no-figures").out
    assert run(*LONG).code == 0
    check_whole(here / "study", 9)
    after = trials(here / "study")
    done = {trial["number"]: trial["value"] for trial in after if trial["state"] == "complete"}
    for found in kept:
        assert dict(found).items() <= done.items()
    # At most three running trials were lost each time; they were retried, up to the limit.
    lost = [trial for trial in after if trial["state"] == "failed"]
    assert 1 <= len(lost) <= 3 * len(codes)
    for trial in lost:
        tried = [one for one in after if params(one) == params(trial)]
        assert [one["state"] for one in tried] in (
            *(["failed"] * times + ["complete"] for times in range(1, MAX_RETRIES + 1)),
            ["failed"] * (MAX_RETRIES + 1),
        )

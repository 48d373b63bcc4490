"""Ends a run of pytest that has failed, whatever its threads wait for.

At its exit Python waits for threads and handlers. Where a test of concurrency has failed, they may
wait for each other for ever, and the report of the failure would not be seen.
"""

import faulthandler
import sys

import pytest

PATIENCE = 5.0  # seconds
_status = pytest.StashKey[int]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_status] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(_status, 0) != 0:
        sys.stdout.flush()
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=sys.__stderr__)

"""Shared by all tests: a test that cannot run where it is says so, and in continuous integration that is a failure."""

import os
from collections.abc import Generator

import pytest

pytest_plugins = ["fake_github.fixtures", "model_server", "issuer"]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest's own, which makes a skip of what may fail
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and in_ci():
        vars(report).pop("wasxfail", None)  # expected to fail: pytest would count no failure
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which is a failure in CI: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and in_ci():
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} was skipped, which is a failure in CI: {report.longrepr}"
    return report


def in_ci() -> bool:
    return bool(os.environ.get("CI") or os.environ.get("APPLIANCE_CI"))

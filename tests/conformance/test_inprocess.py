"""The embedded engine conforms."""

from __future__ import annotations

import pytest

from fedrulefit.engines.base import Engine
from fedrulefit.engines.inprocess import InProcess
from fedrulefit.testing.engines import EngineSuite


class TestInProcess(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return InProcess()

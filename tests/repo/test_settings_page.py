"""The page on operations lists the settings that one service reads, as the classes have them."""

from __future__ import annotations

import re
from pathlib import Path

from zerofleet.config import ProcessSettings
from zerofleet.config.process_settings import ENV_PREFIX
from zerofleet.services.autoscaler.service import AutoscalerSettings
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.inference.settings import InferenceSettings
from zerofleet.services.selfplay.settings import SelfplaySettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "operations.md").read_text()
SETTINGS: dict[str, type[ProcessSettings]] = {
    "autoscaler": AutoscalerSettings,
    "dashboard": DashboardSettings,
    "inference": InferenceSettings,
    "selfplay": SelfplaySettings,
}


def shown(value: object) -> str:
    """A default as the page has it."""
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value) or "empty"


def test_each_setting_of_a_service_has_its_row() -> None:
    rows = re.findall(r"^\| `(ZEROFLEET_\w+)` \| (\w+) \| (\S+) \| \w", PAGE, re.MULTILINE)
    of_one_service = {
        (ENV_PREFIX + name.upper(), service, shown(field.default))
        for service, settings in SETTINGS.items()
        for name, field in settings.model_fields.items()
        if name not in ProcessSettings.model_fields
    }
    assert len(rows) == len(of_one_service)
    assert {*rows} == of_one_service


def test_every_settings_class_is_looked_at() -> None:
    classes = {
        name
        for path in (ROOT / "services").rglob("*.py")
        for name in re.findall(r"class (\w+)\(ProcessSettings\)", path.read_text())
    }
    assert classes == {settings.__name__ for settings in SETTINGS.values()}

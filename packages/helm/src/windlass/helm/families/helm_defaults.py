"""The default advanced settings of Helm services, which clients read before they create one."""

from typing import Final

from windlass.core.settings.operations import default_advanced_settings
from windlass.core.settings.service_settings import ROUTED, rows_of
from windlass.core.settings.setting import settings_of_kind

OF_CHARTS: Final = settings_of_kind("Helm", rows_of(ROUTED))

defaults = default_advanced_settings(OF_CHARTS, "Helm")

"""The default advanced settings of Helm charts, which clients read before they create one."""

from windlass.core.settings.operations import default_advanced_settings
from windlass.core.settings.service_settings import OF_HELM_CHARTS

defaults = default_advanced_settings(OF_HELM_CHARTS, "Helm charts")

"""The tests that the interface of logger plugins has for each of them."""

from snakemake_interface_logger_plugins.tests import TestLogHandlerBase

from snakemake_logger_plugin_tierscope import LogHandler


class TestLogHandler(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self):
        return LogHandler

    def get_log_handler_settings(self):
        return None  # there are none

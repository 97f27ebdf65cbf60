"""What the admin app does while nobody is there."""

import time

from streamlit.watcher.polling_path_watcher import PollingPathWatcher

from ui import server


def test_its_configuration_is_read_once_and_not_watched(tmp_path):
    assert server.app
    file, changed = tmp_path / "config.toml", []
    file.write_text("one")
    PollingPathWatcher(str(file), changed.append)
    file.write_text("another")
    time.sleep(0.5)
    assert changed == []

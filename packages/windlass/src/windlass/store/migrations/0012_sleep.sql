-- Services that sleep (ASLEEP) or are being woken (WAKING); empty for all others.
ALTER TABLE status ADD COLUMN sleep TEXT NOT NULL DEFAULT '';

-- When services that may sleep were last used.
CREATE TABLE service_use (
    service TEXT PRIMARY KEY,
    at BIGINT NOT NULL
);

"""Static sites: releases of files that a router serves. A release is written once and never changed."""

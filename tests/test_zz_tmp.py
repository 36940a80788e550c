import asyncio
import pytest
@pytest.mark.timeout(2)
async def test_hang():
    while True:
        await asyncio.sleep(0.01)
async def test_after():
    pass

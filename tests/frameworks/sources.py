"""Sources of applications whose frameworks have no generator: the first page of each manual."""

from __future__ import annotations

FASTAPI = (
    "from fastapi import FastAPI\n\napp = FastAPI()\n\n\n@app.get('/')\ndef home():\n    return 'it works'\n"
)
STARLETTE = """from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route


def home(request):
    return PlainTextResponse("it works")


app = Starlette(routes=[Route("/", home)])
"""
LITESTAR = """from litestar import Litestar, get


@get("/")
async def home() -> str:
    return "it works"


app = Litestar([home])
"""
GRADIO = """import gradio as gr

demo = gr.Interface(fn=lambda name: f"Hello {name}", inputs="text", outputs="text")
demo.launch()
"""
DASH = """from dash import Dash, html

app = Dash(__name__)
app.layout = html.Div("it works")

if __name__ == "__main__":
    app.run(debug=True)
"""
CELERY = """from celery import Celery

app = Celery("tasks", broker="memory://")


@app.task
def add(left, right):
    return left + right
"""
DJANGO_SETTINGS = """
MIDDLEWARE.insert(1, "whitenoise.middleware.WhiteNoiseMiddleware")
STATIC_ROOT = BASE_DIR / "collected"
DEBUG = False
ALLOWED_HOSTS = [".localhost", "127.0.0.1"]
"""

"""Applications of languages other than Python and Node: of generators where there is one, else small."""

from __future__ import annotations

from typing import Final

from tests.frameworks.rows import Row

_GO: Final = """package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, "it works") })
	panic(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}
"""
_GIN: Final = """package main

import "github.com/gin-gonic/gin"

func main() {
	router := gin.Default()
	router.GET("/", func(request *gin.Context) { request.String(200, "it works") })
	router.Run()
}
"""
_AXUM: Final = """use axum::{routing::get, Router};

#[tokio::main]
async fn main() {
    let app = Router::new().route("/", get(|| async { "it works" }));
    let port = std::env::var("PORT").unwrap_or("3000".into());
    let listener = tokio::net::TcpListener::bind(format!("0.0.0.0:{port}")).await.unwrap();
    axum::serve(listener, app).await.unwrap();
}
"""
_ROCKET: Final = """#[macro_use]
extern crate rocket;

#[get("/")]
fn index() -> &'static str {
    "it works"
}

#[launch]
fn rocket() -> _ {
    rocket::build().mount("/", routes![index])
}
"""
_SPRING: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.springframework.boot</groupId>
    <artifactId>spring-boot-starter-parent</artifactId>
    <version>3.3.5</version>
  </parent>
  <groupId>com.example</groupId>
  <artifactId>app</artifactId>
  <version>1</version>
  <properties><java.version>17</java.version></properties>
  <dependencies>
    <dependency>
      <groupId>org.springframework.boot</groupId>
      <artifactId>spring-boot-starter-web</artifactId>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.springframework.boot</groupId>
        <artifactId>spring-boot-maven-plugin</artifactId>
      </plugin>
    </plugins>
  </build>
</project>
"""
_SPRING_APP: Final = """package app;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.*;

@SpringBootApplication
@RestController
public class App {
  public static void main(String[] words) { SpringApplication.run(App.class, words); }

  @GetMapping("/")
  public String home() { return "it works"; }
}
"""
_KOTLIN: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.example</groupId>
  <artifactId>shop</artifactId>
  <version>1</version>
  <properties>
    <kotlin.version>2.0.21</kotlin.version>
    <kotlin.compiler.jvmTarget>17</kotlin.compiler.jvmTarget>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.jetbrains.kotlin</groupId>
      <artifactId>kotlin-stdlib</artifactId>
      <version>${kotlin.version}</version>
    </dependency>
  </dependencies>
  <build>
    <sourceDirectory>src/main/kotlin</sourceDirectory>
    <plugins>
      <plugin>
        <groupId>org.jetbrains.kotlin</groupId>
        <artifactId>kotlin-maven-plugin</artifactId>
        <version>${kotlin.version}</version>
        <executions>
          <execution><id>compile</id><goals><goal>compile</goal></goals></execution>
        </executions>
      </plugin>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-shade-plugin</artifactId>
        <version>3.6.0</version>
        <executions>
          <execution>
            <phase>package</phase>
            <goals><goal>shade</goal></goals>
            <configuration>
              <transformers>
                <transformer
                    implementation="org.apache.maven.plugins.shade.resource.ManifestResourceTransformer">
                  <mainClass>AppKt</mainClass>
                </transformer>
              </transformers>
            </configuration>
          </execution>
        </executions>
      </plugin>
    </plugins>
  </build>
</project>
"""
_KOTLIN_APP: Final = """import com.sun.net.httpserver.HttpServer
import java.net.InetSocketAddress

fun main() {
    val server = HttpServer.create(InetSocketAddress(System.getenv("PORT").toInt()), 0)
    server.createContext("/") { exchange ->
        val body = listOf("it", "works").joinToString(" ").toByteArray()
        exchange.sendResponseHeaders(200, body.size.toLong())
        exchange.responseBody.use { it.write(body) }
    }
    server.start()
}
"""
_RUBY: Final = """require "socket"
server = TCPServer.new("0.0.0.0", ENV["PORT"].to_i)
loop do
  client = server.accept
  nil while (line = client.gets) && line != "\\r\\n"
  client.write "HTTP/1.1 200 OK\\r\\ncontent-length: 8\\r\\nconnection: close\\r\\n\\r\\nit works"
  client.close
end
"""
_PERL: Final = """use v5.20;
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(LocalPort => $ENV{PORT}, Listen => 5, ReuseAddr => 1) or die $!;
while (my $client = $listener->accept) {
    while (my $line = <$client>) { last if $line eq "\\r\\n" }
    print $client "HTTP/1.1 200 OK\\r\\ncontent-length: 8\\r\\nconnection: close\\r\\n\\r\\nit works";
    close $client;
}
"""
_MIX: Final = """defmodule App.MixProject do
  use Mix.Project
  def project, do: [app: :app, version: "0.1.0", deps: []]
  def application, do: [extra_applications: [:logger], mod: {App, []}]
end
"""
_ELIXIR: Final = """defmodule App do
  use Application

  def start(_, _) do
    port = String.to_integer(System.get_env("PORT"))
    {:ok, listener} = :gen_tcp.listen(port, [:binary, packet: :raw, active: false, reuseaddr: true])
    Task.start_link(fn -> accept(listener) end)
  end

  defp accept(listener) do
    {:ok, socket} = :gen_tcp.accept(listener)
    :gen_tcp.recv(socket, 0)
    :gen_tcp.send(socket, "HTTP/1.1 200 OK\\r\\ncontent-length: 8\\r\\nconnection: close\\r\\n\\r\\nit works")
    :gen_tcp.close(socket)
    accept(listener)
  end
end
"""
_COMPOSER: Final = (
    '{"name": "a/app", "autoload": {"psr-4": {"App\\\\": "src/"}}, "require": {"php": ">=8.0"}}'
)
_HOME: Final = """<?php
namespace App;
class Home { static function text() { return "it works"; } }
"""
_INDEX: Final = """<?php
require __DIR__ . "/../vendor/autoload.php";
echo App\\Home::text();
"""
_DENO: Final = (
    'const port = Number(Deno.env.get("PORT"));\n'
    'Deno.serve({ port, hostname: "0.0.0.0" }, () => new Response("it works"));\n'
)
LANGUAGES: Final = (
    Row(
        "Go, net/http", "", "it works", "mkdir app && cd app && go mod init example.com/app", {"main.go": _GO}
    ),
    Row(
        "Go, Gin",
        "Gin",
        "it works",
        "mkdir app && cd app && go mod init example.com/app && go get github.com/gin-gonic/gin@v1.10.0",
        {"main.go": _GIN},
        after="go mod tidy",
    ),
    Row(
        "Go, with a Procfile",
        "",
        "it works",
        "mkdir app && cd app && go mod init example.com/app",
        {"main.go": _GO, "Procfile": "web: app\n"},
    ),
    Row(
        "Rust, Axum",
        "Axum",
        "it works",
        "cargo new app && cd app && cargo add axum@0.7 "
        "&& cargo add tokio@1 --features rt-multi-thread,net,macros",
        {"src/main.rs": _AXUM},
    ),
    Row(
        "Rust, Rocket",
        "Rocket",
        "it works",
        "cargo new app && cd app && cargo add rocket@0.5",
        {"src/main.rs": _ROCKET},
    ),
    Row(
        "Java, Spring Boot",
        "Spring Boot",
        "it works",
        "mkdir app",
        {"pom.xml": _SPRING, "src/main/java/app/App.java": _SPRING_APP},
    ),
    Row(
        "Kotlin, Maven",
        "",
        "it works",
        "mkdir app",
        {"pom.xml": _KOTLIN, "src/main/kotlin/App.kt": _KOTLIN_APP},
    ),
    Row("Ruby", "", "it works", "mkdir app", {"Gemfile": 'source "https://rubygems.org"\n', "app.rb": _RUBY}),
    Row("PHP", "", "it works", "mkdir app", {"index.php": '<?php echo "it works";'}),
    Row(
        "PHP, Composer",
        "",
        "it works",
        "mkdir app",
        {
            "composer.json": _COMPOSER,
            "src/Home.php": _HOME,
            "public/index.php": _INDEX,
        },
    ),
    Row("Deno", "", "it works", "mkdir app", {"deno.json": "{}\n", "main.ts": _DENO}),
    Row("Perl", "", "it works", "mkdir app", {"cpanfile": "requires 'perl', '5.020';\n", "app.pl": _PERL}),
    Row("Elixir", "", "it works", "mkdir -p app/lib", {"mix.exs": _MIX, "lib/app.ex": _ELIXIR}),
)

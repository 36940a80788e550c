"""Trees of other languages, and the recipes that they must give."""

from __future__ import annotations

from tests.detect.trees import GRADLEW, MVNW, Row, package

ROWS = [
    Row("HTML", {"index.html": "<h1>"}, {"language": "HTML", "static_folder": ".", "start": ""}),
    Row("HTML in a folder", {"public/index.html": "<h1>"}, {"language": "HTML", "static_folder": "public"}),
    Row(
        "Go",
        {"go.mod": "module example.com/shop/v2\n\ngo 1.22\n", "main.go": "package main\n"},
        {
            "language": "Go",
            "language_version": "1.22",
            "install": "",
            "build": "go build -o bin/ .",
            "start": "./bin/shop",
        },
    ),
    Row(
        "Go below cmd",
        {
            "go.mod": "module example.com/shop\nrequire github.com/gin-gonic/gin v1\n",
            "cmd/api/main.go": "// x\npackage main\n",
        },
        {
            "framework": "Gin",
            "install": "go mod download",
            "build": "go build -o bin/ ./cmd/api",
            "start": "./bin/api",
        },
    ),
    Row(
        "Rust",
        {
            "Cargo.toml": '[package]\nname="shop"\n[dependencies]\naxum="0.8"\n',
            "Cargo.lock": "",
            "src/main.rs": "",
        },
        {
            "language": "Rust",
            "framework": "Axum",
            "build": "cargo build --release --locked",
            "start": "./target/release/shop",
        },
    ),
    Row(
        "Rocket",
        {"Cargo.toml": '[package]\nname="shop"\n[dependencies]\nrocket="0.5"\n', "src/main.rs": ""},
        {"start": "env ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=${PORT:-8000} ./target/release/shop", "port": 8000},
    ),
    Row(
        "PHP with its packages in the repository",
        {
            "composer.json": '{"require": {"slim/slim": "4"}}',
            "vendor/autoload.php": "<?php",
            "public/index.php": "<?php",
        },
        {"framework": "Slim", "install": "", "start": "php -S 0.0.0.0:${PORT:-8000} -t public"},
    ),
    Row(
        "Go that finds its files by the path of its source",
        {
            "go.mod": "module example.com/shop\n",
            "cmd/api/main.go": "package main\n",
            "conf/conf.go": "package conf\nvar _, file, _, _ = runtime.Caller(0)\n",
            "conf/conf_test.go": "package conf\n",
        },
        {"build": 'go build "-gcflags=example.com/shop/...=-trimpath=$PWD=>." -o bin/ ./cmd/api'},
        {"build": "cmd/api holds the package main, and conf/conf.go finds files by the path of its source."},
    ),
    Row(
        "Go whose tests alone ask for the path of their source",
        {"go.mod": "module shop\n", "main.go": "package main\n", "a_test.go": "runtime.Caller(0)"},
        {"build": "go build -o bin/ ."},
    ),
    Row(
        "Go that serves HTTP",
        {"go.mod": "module shop\n", "main.go": "package main\nfunc main() { http.ListenAndServe(a, nil) }\n"},
        {"port": 8080, "framework": ""},
    ),
    Row(
        "a folder of a module of Go",
        {"main.go": "package main\n"},
        {"build": "go build -o bin/app .", "start": "./bin/app"},
        {"start": "The build makes it, called app."},
    ),
    Row("Go that serves nothing", {"go.mod": "module shop\n", "main.go": "package main\n"}, {"port": 0}),
    Row(
        "Go with a process web that cannot listen",
        {
            "go.mod": "module shop\n",
            "main.go": 'package main\nimport (\n\t"fmt"\n\t"time"\n)\n',
            "Procfile": "web: bin/shop\n",
        },
        {"port": 0, "processes": ["web"]},
    ),
    Row(
        "Go with a process web that another package lets listen",
        {
            "go.mod": "module shop\n",
            "main.go": 'package main\nimport "shop/inner"\n',
            "inner/inner.go": 'package inner\nimport n "net/http"\n',
            "Procfile": "web: bin/shop\n",
        },
        {"port": 8080},
    ),
    Row(
        "Go with a process web and modules of others",
        {
            "go.mod": "module shop\nrequire example.com/serve v1.0.0\n",
            "main.go": "package main\n",
            "Procfile": "web: bin/shop\n",
        },
        {"port": 8080},
    ),
    Row(
        "Micronaut",
        {"pom.xml": "<a>io.micronaut</a>"},
        {
            "framework": "Micronaut",
            "start": "java -Dmicronaut.server.port=${PORT:-8080} -jar "
            "$(ls target/*.jar | grep -v -e /original- -e -plain.jar -e -sources.jar -e -javadoc.jar "
            "| head -n 1)",
        },
    ),
    Row(
        "Composer for its classes alone",
        {"composer.json": '{"autoload": {}}', "index.php": "<?php"},
        {"install": "composer install --no-dev --optimize-autoloader --no-interaction"},
    ),
    Row(
        "Deno that serves HTTP",
        {"deno.json": "{}", "main.ts": "Deno.serve(() => new Response())"},
        {"port": 8000},
    ),
    Row(
        "Rust in a workspace",
        {
            "Cargo.toml": '[workspace]\nmembers=["lib","api"]\n',
            "lib/Cargo.toml": '[package]\nname="lib"\n',
            "lib/src/lib.rs": "",
            "api/Cargo.toml": '[package]\nname="api"\n',
            "api/src/main.rs": "",
        },
        {"build": "cargo build --release --package api", "start": "./target/release/api"},
    ),
    Row(
        "Spring Boot with Maven",
        {
            "pom.xml": "<a>spring-boot-starter-actuator</a><java.version>21</java.version>",
            **MVNW,
        },
        {
            "language": "Java",
            "framework": "Spring Boot",
            "language_version": "21",
            "build": "./mvnw -B -DskipTests package",
            "health_path": "/actuator/health",
            "port": 8080,
        },
    ),
    Row(
        "Kotlin with Maven",
        {
            "pom.xml": "<artifactId>kotlin-maven-plugin</artifactId>"
            "<maven.compiler.release>17</maven.compiler.release>",
            "src/main/kotlin/App.kt": "fun main() {}\n",
        },
        {
            "language": "Java",
            "framework": "",
            "language_version": "17",
            "build": "mvn -B -DskipTests package",
        },
    ),
    Row(
        "the plugin application of Gradle",
        {"build.gradle": "plugins {\n    id 'application'\n}\napplication { mainClass = 'App' }\n"},
        {
            "build": "gradle --no-daemon installDist",
            "start": r"$(ls build/install/*/bin/* | grep -v '\.bat$' | head -n 1)",
        },
        {"start": "build.gradle has the plugin application, which makes this script."},
    ),
    Row(
        "the plugin application of Gradle in Kotlin",
        {"build.gradle.kts": "plugins {\n    application\n}\n", **GRADLEW},
        {"build": "./gradlew --no-daemon installDist"},
    ),
    Row(
        "an archive of Gradle that starts by itself",
        {"build.gradle": "apply plugin: 'application'\njar.manifest.attributes 'Main-Class': 'App'\n"},
        {
            "build": "gradle --no-daemon build -x test",
            "start": "java -jar $(ls build/libs/*.jar | grep -v -e /original- -e -plain.jar -e -sources.jar "
            "-e -javadoc.jar | head -n 1)",
        },
    ),
    Row(
        "Quarkus with Gradle",
        {"build.gradle.kts": 'plugins { id("io.quarkus") }\n', **GRADLEW},
        {
            "framework": "Quarkus",
            "build": "./gradlew --no-daemon build -x test",
            "start": "java -Dquarkus.http.port=${PORT:-8080} -jar build/quarkus-app/quarkus-run.jar",
        },
    ),
    Row(
        "Rails",
        {
            "Gemfile": 'ruby "3.3.0"\ngem "rails"\ngem "pg"\n',
            "config/application.rb": "",
            "config/database.yml": "",
            "app/assets/stylesheets/application.css": "",
        },
        {
            "language": "Ruby",
            "framework": "Rails",
            "language_version": "3.3.0",
            "release": "bundle exec rails db:migrate",
            "start": "bundle exec rails server -b 0.0.0.0 -p ${PORT:-3000}",
            "system_packages": ["libpq-dev"],
        },
    ),
    Row(
        "Rails by its Gemfile alone",
        {"Gemfile": 'gem "rails"\n', "app/views/pwa/manifest.json.erb": ""},
        {"framework": "Rails", "health_path": "/up"},
        {
            "framework": "Gemfile names rails.",
            "health_path": "app/views/pwa/manifest.json.erb is there: versions of Rails that make it answer "
            "there.",
        },
    ),
    Row(
        "WordPress without its settings",
        {"wp-config-sample.php": "", "index.php": ""},
        {"framework": "WordPress"},
        {"framework": "wp-config-sample.php is there."},
    ),
    Row(
        "Sinatra with the folders of Rails",
        {
            "Gemfile": "gem 'sinatra'\ngem 'sinatra-activerecord'\n",
            "config.ru": "",
            "config/application.rb": "",
        },
        {"framework": "Sinatra", "start": "bundle exec rackup -o 0.0.0.0 -p ${PORT:-3000}", "build": ""},
    ),
    Row(
        "Sinatra",
        {"Gemfile": "gem 'sinatra'\n", "app.rb": "", ".ruby-version": "ruby-3.3.1\n"},
        {
            "framework": "Sinatra",
            "start": "bundle exec ruby app.rb -o 0.0.0.0 -p ${PORT:-4567}",
            "language_version": "3.3.1",
        },
    ),
    Row(
        "Rack",
        {"Gemfile": "gem 'puma'\n", "config.ru": ""},
        {"start": "bundle exec puma -p ${PORT:-3000}"},
    ),
    Row(
        "Laravel",
        {
            "composer.json": '{"require": {"php": "^8.2", "laravel/framework": "^12"}}',
            "public/index.php": "",
            "package.json": package("vite", build="vite build"),
        },
        {
            "language": "PHP",
            "framework": "Laravel",
            "language_version": "^8.2",
            "release": "php artisan migrate --force",
            "build": "npm install && npm run build",
            "start": "php -S 0.0.0.0:${PORT:-8000} -t public",
        },
    ),
    Row(
        "Symfony",
        {
            "composer.json": '{"require": {"symfony/framework-bundle": "7.*", "ext-intl": "*"}}',
            "public/index.php": "",
        },
        {"framework": "Symfony", "system_packages": ["php-intl"]},
    ),
    Row(
        "plain PHP",
        {"index.php": "<?php"},
        {"language": "PHP", "start": "php -S 0.0.0.0:${PORT:-8000}", "install": ""},
    ),
    Row(
        "a command of Heroku for PHP",
        {"composer.json": "{}", "Procfile": "web: heroku-php-apache2 web/\n", "web/index.php": ""},
        {"start": "php -S 0.0.0.0:${PORT:-8000} -t web"},
    ),
    Row(
        "Deno",
        {"deno.jsonc": '{\n  // tasks\n  "tasks": {"start": "deno run main.ts"}\n}', "deno.lock": ""},
        {"language": "Deno", "start": "deno task start", "install": "deno install --frozen"},
    ),
    Row("Deno by its entry", {"deno.json": "{}", "main.ts": ""}, {"language": "Deno"}),
    Row(
        ".NET",
        {
            "Shop.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web">'
            "<TargetFramework>net8.0</TargetFramework></Project>"
        },
        {
            "language": ".NET",
            "framework": "ASP.NET Core",
            "language_version": "8.0",
            "start": 'env ASPNETCORE_URLS=http://0.0.0.0:${PORT:-8080} dotnet "out/Shop.dll"',
        },
    ),
    Row(
        "Phoenix",
        {"mix.exs": 'elixir: "~> 1.15"\n{:phoenix, "~> 1.7"}\n{:ecto_sql, "~> 3.0"}\n'},
        {
            "language": "Elixir",
            "framework": "Phoenix",
            "language_version": "~> 1.15",
            "release": "env MIX_ENV=prod mix ecto.migrate",
            "port": 4000,
        },
    ),
    Row(
        "Mojolicious",
        {"cpanfile": "requires 'perl', '5.036';\nrequires 'Mojolicious', '>= 9.0';\n", "script/shop": ""},
        {
            "language": "Perl",
            "language_version": ">=5.36",
            "framework": "Mojolicious",
            "package_manager": "cpanm",
            "install": 'cpanm --from "${PERL_CARTON_MIRROR:-https://cpan.metacpan.org}" -L local --notest '
            "--installdeps .",
            "start": "perl script/shop prefork -m production -l http://0.0.0.0:${PORT:-3000}",
            "port": 3000,
        },
    ),
    Row(
        "Dancer2, locked by Carton, with a server of PSGI",
        {
            "cpanfile": "requires Dancer2 => '1.0';\nrequires('DBD::Pg');\nrequires \"Starlet\";\n",
            "cpanfile.snapshot": "",
            "bin/app.psgi": "",
            "lib/Shop.pm": "",
            "package.json": package("vite"),
        },
        {
            "language": "Perl",
            "framework": "Dancer2",
            "package_manager": "carton",
            "system_packages": ["libpq-dev"],
            "added_packages": [],
            "install": 'env PERL_CARTON_MIRROR="${PERL_CARTON_MIRROR:-https://cpan.metacpan.org}" '
            "carton install --deployment --without develop",
            "start": "./local/bin/plackup -E production -s Starlet --host 0.0.0.0 --port ${PORT:-5000} "
            "-I lib bin/app.psgi",
            "port": 5000,
        },
    ),
    Row(
        "a file of PSGI, to which a server is added",
        {"app.psgi": "sub { [200, [], ['it works']] }\n"},
        {
            "language": "Perl",
            "added_packages": ["Starman"],
            "install": 'cpanm --from "${PERL_CARTON_MIRROR:-https://cpan.metacpan.org}" -L local --notest '
            "Starman",
            "start": "./local/bin/plackup -E production -s Starman --host 0.0.0.0 --port ${PORT:-5000} "
            "app.psgi",
        },
    ),
    Row(
        "a program of Perl",
        {"cpanfile": "requires 'perl', 'v5.20.1';\n", "app.pl": "print 1\n", "worker.pl": ""},
        {"language": "Perl", "language_version": ">=5.20.1", "start": "perl app.pl", "port": 0},
    ),
    Row(
        "a script of the shell",
        {"start.sh": "#!/bin/bash\n"},
        {"language": "Shell", "start": "bash start.sh"},
    ),
]

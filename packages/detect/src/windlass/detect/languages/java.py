"""Java and Kotlin: Maven or Gradle, with a wrapper if there is one; Spring Boot, Quarkus, Micronaut, Ktor."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import Language
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version, choose_version_by_file

_FRAMEWORKS: Final = {
    "spring-boot": ("Spring Boot", "/actuator/health"),
    "io.quarkus": ("Quarkus", "/q/health"),
    "io.micronaut": ("Micronaut", "/health"),
    "io.ktor": ("Ktor", ""),
    "io.javalin": ("Javalin", ""),
    "io.dropwizard": ("Dropwizard", ""),
}
_PORT_OPTIONS: Final = {"Spring Boot": "-Dserver.port", "Micronaut": "-Dmicronaut.server.port"}
"""System properties that set the port of each framework."""
_HEALTH_PACKAGES: Final = ("actuator", "smallrye-health", "micronaut-management")
_VERSIONS_PATTERN: Final = re.compile(
    r"<(?:java\.version|jdk\.version|maven\.compiler\.(?:release|source|target)|release|source|target)>"
    r"\s*+(?:1\.)?(\d{1,2})\s*+<"
    r"|(?:languageVersion|jvmToolchain|sourceCompatibility|jvmTarget)[^\d\n]{1,60}+(?:1[._](?=\d\b))?(\d{1,2})\b"
)
_SPRING_BOOT_PATTERN: Final = re.compile(
    r"<artifactId>spring-boot-starter-parent</artifactId>\s*+<version>(\d+)\.(\d+)"
    r"|org\.springframework\.boot['\"]\)?\s++version\s*+['\"](\d+)\.(\d+)"
)
_JAVA_OF_BOOT: Final = {1: "8", 2: "8", 3: "17", 4: "17"}
"""The version of Java that each major version of Spring Boot uses if the build file names none."""
_FIRST_SPRING_WITH_NEW_LOMBOK: Final = (4, 0)
"""The first version of Spring Boot whose Lombok works with the newest JDK."""
_NEW_LOMBOK: Final = "1.18.42"
_OWN_LOMBOK_PATTERN: Final = re.compile(
    r"<artifactId>lombok</artifactId>\s*+(?:<(?:scope|optional)>\w*+</\w++>\s*+){0,2}"
    r"<version>(?!\$\{lombok\.version\})|projectlombok:lombok:\d|lombok\.version['\"]?\]"
)
"""Matches a version of Lombok that no option replaces."""
_LOMBOK_PROPERTY_PATTERN: Final = re.compile(r"<lombok\.version>1\.18\.(\d{1,3})<")
_FIRST_LOMBOK_FOR_NEW_JDKS: Final = 40
"""The first Lombok 1.18 that works with JDK 25."""
_SECONDARY_ARCHIVES: Final = ("/original-", "-plain.jar", "-sources.jar", "-javadoc.jar")
"""Parts of the names of archives that are not the application. For example, Maven's shade plugin keeps the
archive without dependencies as original-shop-1.jar."""
_APPLICATION_PATTERN: Final = re.compile(
    r"""\b(?:id|plugin:|plugin\s*=)[ (]*["']application["']|^[ \t]*+`?application`?[ \t\r]*+$""", re.MULTILINE
)
"""Matches Gradle's application plugin, which creates a folder with the application's archives and a start
script."""
_WAR_PATTERN: Final = re.compile(r"<packaging>\s*+war\s*+</packaging>")
"""Matches a build that makes an archive for servlet containers. That of Spring Boot can be run, too."""
_OWN_ARCHIVE: Final = ("Main-Class", "shadow")
"""Words in build files that show that the build produces an executable archive."""
_MAVEN_WRAPPER: Final = (".mvn/wrapper/maven-wrapper.properties", ".mvn/wrapper/maven-wrapper.jar")
_GRADLE_WRAPPER: Final = "gradle/wrapper/gradle-wrapper.jar"
_BUILD_FILES: Final = ("pom.xml", "build.gradle.kts", "build.gradle")


def fill(files: KnownFiles, recipe: Recipe) -> None:
    file = files.has(*_BUILD_FILES)
    text = files.text(file)
    choose_version_by_file(files, recipe, "java", ".java-version")
    for line in files.text("system.properties").splitlines():
        name, _, version = line.partition("=")
        if name.strip() == "java.runtime.version":
            choose_version(recipe, version, "system.properties")
    if numbers := _VERSIONS_PATTERN.search(text):
        choose_version(recipe, numbers[1] or numbers[2], file)
    boot = _boot_version(text)
    if boot and not recipe.language_version and (default := _JAVA_OF_BOOT.get(boot[0])):
        recipe.choose(
            f"It is that of Spring Boot {boot[0]}, as {file} names no other.", language_version=default
        )
    for name, (title, health) in _FRAMEWORKS.items():
        if name in text or name.replace("-", ".") in text:
            recipe.choose(f"{file} names {name}.", framework=title, port=8080)
            if health and any(word in text for word in _HEALTH_PACKAGES):
                recipe.choose(f"{file} includes its health checks.", health_path=health)
    if file == "pom.xml":
        _maven(files, recipe)
    else:
        _gradle(files, recipe, file)


def _boot_version(text: str) -> tuple[int, int] | None:
    match = _SPRING_BOOT_PATTERN.search(text)
    return (int(match[1] or match[3]), int(match[2] or match[4])) if match else None


def _with_new_lombok(text: str, option: str) -> tuple[str, str]:
    """Returns the option that replaces a Lombok which fails with the JDKs that are usual now, and the reason.
    Both are empty if the build file chooses the version of Lombok, or Spring Boot a newer one."""
    boot, own = _boot_version(text), _LOMBOK_PROPERTY_PATTERN.search(text)
    is_old = (
        int(own[1]) < _FIRST_LOMBOK_FOR_NEW_JDKS
        if own
        else bool(boot and boot < _FIRST_SPRING_WITH_NEW_LOMBOK)
    )
    if not is_old or "lombok" not in text or _OWN_LOMBOK_PATTERN.search(text):
        return "", ""
    return (
        f" {option}lombok.version={_NEW_LOMBOK}",
        f" Lombok {_NEW_LOMBOK} is used, because older ones fail with newer JDKs.",
    )


def _maven(files: KnownFiles, recipe: Recipe) -> None:
    has_wrapper = files.has("mvnw") and files.has(*_MAVEN_WRAPPER)
    program = "./mvnw" if has_wrapper else "mvn"
    option, why = _with_new_lombok(files.text("pom.xml"), "-D")
    because = _wrapper_reason(files, "mvnw", ".mvn/wrapper", bool(has_wrapper)) or "pom.xml is there."
    recipe.choose(
        f"{because}{why}", package_manager="maven", build=f"{program} -B -DskipTests{option} package"
    )
    kind = "war" if _WAR_PATTERN.search(files.text("pom.xml")) else "jar"
    _start(recipe, "target", "target/quarkus-app/quarkus-run.jar", kind)


def _wrapper_reason(files: KnownFiles, script: str, folder: str, has_wrapper: bool) -> str:
    if not files.has(script):
        return ""
    return (
        f"{script} is there." if has_wrapper else f"{script} cannot run: the files in {folder} are missing."
    )


def _gradle(files: KnownFiles, recipe: Recipe, file: str) -> None:
    has_wrapper = files.has("gradlew") and files.has(_GRADLE_WRAPPER)
    program = "./gradlew" if has_wrapper else "gradle"
    option, why = _with_new_lombok(files.text(file), "-P")
    because = _wrapper_reason(files, "gradlew", "gradle/wrapper", bool(has_wrapper)) or f"{file} is there."
    goal = {"Spring Boot": "bootJar", "Ktor": "buildFatJar"}.get(recipe.framework, "build -x test")
    if recipe.framework not in {"Quarkus", "Ktor", *_PORT_OPTIONS} and _is_application(files.text(file)):
        _choose_script(recipe, because, program, file)
        return
    recipe.choose(f"{because}{why}", package_manager="gradle", build=f"{program} --no-daemon{option} {goal}")
    _start(recipe, "build/libs", "build/quarkus-app/quarkus-run.jar")


def _is_application(text: str) -> bool:
    return bool(_APPLICATION_PATTERN.search(text)) and not any(word in text for word in _OWN_ARCHIVE)


def _choose_script(recipe: Recipe, reason: str, program: str, file: str) -> None:
    recipe.choose(reason, package_manager="gradle", build=f"{program} --no-daemon installDist")
    start = r"$(ls build/install/*/bin/* | grep -v '\.bat$' | head -n 1)"
    recipe.choose(f"{file} has the plugin application, which makes this script.", start=start)


def _start(recipe: Recipe, folder: str, of_quarkus: str, kind: str = "jar") -> None:
    others = " ".join(f"-e {end}" for end in _SECONDARY_ARCHIVES)
    archive = f"$(ls {folder}/*.{kind} | grep -v {others} | head -n 1)"
    if recipe.framework == "Quarkus":
        start = f"java -Dquarkus.http.port=${{PORT:-8080}} -jar {of_quarkus}"
    elif recipe.framework in _PORT_OPTIONS:
        start = f"java {_PORT_OPTIONS[recipe.framework]}=${{PORT:-8080}} -jar {archive}"
    elif recipe.framework == "Ktor":
        start = f"java -jar {archive} -port=${{PORT:-8080}}"
    else:
        start = f"java -jar {archive}"
    recipe.choose("The build puts the archive of the application there.", start=start)


java = Language(
    name="Java",
    manifests=_BUILD_FILES,
    rank=20,
    fill=fill,
    manifests_with_paths=("pom.xml", "settings.gradle", "settings.gradle.kts"),
    toolchain=Toolchain(
        title="Java",
        program="javac",
        package="default-jdk",
        others={"java": "default-jdk", "mvn": "maven", "gradle": "gradle"},
        version=("javac", "-version"),
        former_major=1,
        takes_nearest=True,  # compilers and their plugins, such as Lombok, often fail with a newer JDK
        newer="apt-get install openjdk-{version}-jdk",
        homes=("usr/lib/jvm/*", "opt/java/*", "opt/jdk*"),
        home_variable="JAVA_HOME",
        passed=("MAVEN_REPO", "MVNW_", "ORG_GRADLE_PROJECT_"),
        caches={"MAVEN_USER_HOME": "maven", "GRADLE_USER_HOME": "gradle"},
        variables={
            "MAVEN_OPTS": "-Dmaven.repo.local={caches}/maven/repository -Duser.home={home} "
            # Concurrent builds of an organization share one Maven repository, so they lock it.
            "-Daether.syncContext.named.factory=file-lock -Daether.syncContext.named.nameMapper=file-gav",
            "GRADLE_OPTS": "-Dorg.gradle.daemon=false -Duser.home={home}",
        },
        kept=("target", "build", ".gradle"),
        results=(
            "target/*.jar",
            "target/*.war",
            "target/lib/",
            "target/quarkus-app/",
            "build/libs/*",
            "build/quarkus-app/",
            "build/install/",
        ),
    ),
)

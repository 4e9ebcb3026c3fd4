"""The table of what the doctor names itself. Data only; `{…}` in the texts is filled in by the check."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "fault"]
RECREATE = "`docker compose up -d --force-recreate`, without options of your own for it."


@dataclass(frozen=True)
class Cause:
    """One thing that the doctor names itself; `{…}` in its texts is filled in by the check."""

    id: str
    state: State
    sentence: str
    remedy: str
    unsupported: bool = False


CAUSES: tuple[Cause, ...] = (
    Cause(
        "unexamined",
        "fault",
        "It could not be examined: {why}",
        "mend what the sentence says, then run the doctor again; report it if it makes no sense to you.",
    ),
    Cause(
        "setting-unknown",
        "warning",
        "{said}",
        "correct the name in .env, then `docker compose up -d`; README.md lists the settings.",
    ),
    Cause(
        "sandbox-advice",
        "warning",
        "{said}",
        "{remedy}",
    ),
    Cause(
        "disk-low",
        "warning",
        "Only {free} are free at {where}.",
        "free disk space: `docker system df` shows what Docker holds.",
    ),
    Cause(
        "tmpfs-low",
        "warning",
        "Only {free} are free at {where}, which the container loses at each start.",
        "`docker restart review-appliance` empties it; if it fills again, report it.",
    ),
    Cause(
        "signing-key-missing",
        "fault",
        "signing.key is gone from the state volume, though there is a database beside it.",
        "put the backup back (README.md, Update, backup, removal). If there is none, accept a new one: "
        "`docker exec review-appliance touch /var/lib/appliance/accept-new-key`; what the database has is not reviewed "
        "again, but no comment so far counts as the appliance's own.",
    ),
    Cause(
        "health-starting",
        "warning",
        "The appliance is still starting.",
        "wait for its first cycle, then run the doctor again.",
    ),
    Cause(
        "cycle-late",
        "fault",
        "The last cycle ended {ago} ago, and none has ended since.",
        "see `docker logs --tail 50 review-appliance`; `docker compose restart` starts over.",
    ),
    Cause(
        "cycle-failed",
        "warning",
        "The last cycle ended {ago} ago and met a fault.",
        "`docker exec review-appliance appliance cycle` is a cycle now, and says which.",
    ),
    Cause(
        "held",
        "warning",
        "No review starts until {until}: {cause}: {sentence}",
        "{remedy}",
    ),
    Cause(
        "clock-skew",
        "warning",
        "This machine's clock is {skew} {direction} GitHub's.",
        "set it right: `sudo timedatectl set-ntp true` on the host (Docker Desktop and WSL2: restart it).",
    ),
    Cause(
        "clock-wrong",
        "fault",
        "This machine's clock is {skew} {direction} GitHub's, so waits, tokens and certificates go wrong.",
        "set it right: `sudo timedatectl set-ntp true` on the host (Docker Desktop and WSL2: restart it).",
    ),
    Cause(
        "clock-unknown",
        "warning",
        "The forge does not tell its time in a way that can be compared.",
        "look whether a proxy stands between: `curl -sI` on APPLIANCE_GITHUB_URL has to show a Date.",
    ),
    Cause(
        "token-expires",
        "warning",
        "GITHUB_TOKEN expires in {left}, on {date}.",
        "make a new token with the same permissions, put it into GITHUB_TOKEN and run `docker compose up -d`.",
    ),
    Cause(
        "token-expiry-unknown",
        "warning",
        "When GITHUB_TOKEN expires cannot be read from {said!r}.",
        "look it up in GitHub under Settings, Developer settings, Personal access tokens.",
    ),
    Cause(
        "app-permissions",
        "fault",
        "The App lacks permissions: {missing}.",
        "add them on the App's page in GitHub (Permissions & events), and let an owner accept them at {page}.",
    ),
    Cause(
        "rate-low",
        "warning",
        "Of {limit} requests an hour {remaining} are left until {reset}; a cycle may need {need}.",
        "a longer APPLIANCE_INTERVAL asks less often; other programs with the same token use up the same budget.",
    ),
    Cause(
        "rate-unknown",
        "warning",
        "The forge does not tell how many requests are left.",
        "nothing on a GitHub Enterprise Server without rate limits; else see that no proxy takes headers away.",
    ),
    Cause(
        "gate-not-required",
        "warning",
        "No rule of {branch} requires {context}: a pull request can be merged without its review.",
        "in GitHub: Settings, Rules, Rulesets, New branch ruleset, Require status checks to pass, and add {context}.",
    ),
    Cause(
        "gate-required-unknown",
        "warning",
        "Whether {branch} requires {context} is not known: GitHub does not tell this token all its rules.",
        "look it up in GitHub under Settings, Rules and Settings, Branches; or give the token Administration: read.",
    ),
    Cause(
        "gate-wrong-source",
        "fault",
        "{branch} requires {context} from the GitHub App {source} alone, so what is set here never counts.",
        'in the rule, set the expected source of {context} to "any source", or to the App that the appliance is.',
    ),
    Cause(
        "repositories-left-out",
        "warning",
        "Only the first {examined} of {all} repositories were examined.",
        "name the others one at a time: "
        "`docker exec -e APPLIANCE_REPOSITORIES=owner/name review-appliance appliance doctor`.",
    ),
    Cause(
        "model-unsure",
        "warning",
        "The model's API answered {said} to a request of nothing, so whether it works is not known.",
        "`docker exec review-appliance review TARGET` asks it for real, and costs tokens.",
    ),
    # --- on the host: the engine
    Cause(
        "docker-package-missing",
        "fault",
        "The docker package is missing, so the engine cannot be asked.",
        "run it with the extra `host`: `pipx run --spec '.[host]' appliance doctor` in the checkout.",
    ),
    Cause(
        "engine-unreachable",
        "fault",
        "The Docker engine cannot be asked: {why}",
        "start it (`sudo systemctl start docker`), or let your user ask it (`sudo usermod -aG docker $USER`, then log "
        "in anew); `docker version` has to show a server.",
    ),
    Cause(
        "engine-too-old",
        "fault",
        "Docker Engine {version} is too old: {least} or newer is needed.",
        "update Docker.",
        unsupported=True,
    ),
    Cause(
        "engine-no-linux",
        "fault",
        "The engine runs {kind} containers; the appliance needs Linux.",
        "switch Docker to Linux containers.",
        unsupported=True,
    ),
    Cause(
        "engine-untried",
        "warning",
        "The engine is {kind}, which the appliance was never tried on.",
        "look at the line `sandbox`: it says whether the sandbox works here.",
    ),
    Cause(
        "engine-no-seccomp",
        "fault",
        "The engine's kernel has no seccomp, so nothing limits the container's system calls.",
        "run the appliance on a kernel with CONFIG_SECCOMP_FILTER, and an engine that uses it.",
        unsupported=True,
    ),
    Cause(
        "engine-no-limits",
        "fault",
        "The engine cannot limit {what}, so a review could take the whole machine.",
        "rootless Docker: cgroup version 2 with delegation to the user (`docker info` shows warnings); else boot with "
        "the memory and pids controllers on.",
        unsupported=True,
    ),
    Cause(
        "compose-missing",
        "fault",
        "Docker has no Compose: {least} or newer is needed.",
        "install docker-compose-plugin (from Debian: docker-compose).",
    ),
    Cause(
        "compose-too-old",
        "fault",
        "Docker Compose {version} is too old: {least} or newer sends systempaths=unconfined, which the sandbox needs.",
        "update docker-compose-plugin.",
        unsupported=True,
    ),
    Cause(
        "disk-unknown",
        "warning",
        "How much is free at the engine's {where} cannot be told from here.",
        "`docker system df` shows what Docker holds; `df -h` on the engine's machine what is left.",
    ),
    # --- on the host: its kernel
    Cause(
        "namespaces-off",
        "fault",
        "user.{name} is {value}: the sandbox needs some.",
        "`sudo sysctl -w user.{name}=15000`, and the line in a file in /etc/sysctl.d.",
    ),
    # --- on the host: the container
    Cause(
        "container-missing",
        "fault",
        "There is no container {name}.",
        "`docker/up` builds and starts it; another name: `--container NAME`.",
    ),
    Cause(
        "container-stopped",
        "fault",
        "The container is {status} (exit code {code}{why}).",
        "`docker logs --tail 50 {name}`, then `docker compose up -d`.",
    ),
    Cause(
        "container-health-unknown",
        "warning",
        "The container's health is {said!r}.",
        "wait half a minute, then run the doctor again; compose.yaml's healthcheck has to be in force.",
    ),
    Cause(
        "image-outdated",
        "warning",
        "The container runs another image than {image} is now.",
        "`docker compose up -d` takes the newer one.",
    ),
    Cause("image-missing", "warning", "The image {image} is gone.", "`docker/up` builds it."),
    Cause(
        "compose-file-unreadable",
        "fault",
        "What the container should be given is not known: {why}.",
        "run the doctor in the checkout, or name its file: `--compose-file PATH/compose.yaml`; "
        "`docker compose -f PATH/compose.yaml config -q` says what is wrong with it.",
    ),
    Cause("container-privileged", "fault", "The container is privileged: it may do everything the host may.", RECREATE),
    Cause(
        "container-capabilities",
        "fault",
        "The container has capabilities that compose.yaml takes away: {what}.",
        RECREATE,
    ),
    Cause("container-seccomp", "fault", "The container's seccomp rules are not docker/seccomp.json: {what}.", RECREATE),
    Cause(
        "seccomp-file-changed",
        "fault",
        "The seccomp rules that compose.yaml names are not those of this version's docker/seccomp.json ({what}).",
        "in the checkout `git checkout -- docker/seccomp.json compose.yaml` (`git diff` shows what you lose), then "
        + RECREATE,
    ),
    Cause(
        "container-new-privileges",
        "fault",
        "no-new-privileges is not in force: a program with the setuid bit could gain rights.",
        RECREATE,
    ),
    Cause(
        "container-systempaths",
        "fault",
        "The engine masks parts of /proc ({what}), so the sandbox gets no /proc of its own.",
        "systempaths=unconfined as in compose.yaml, with Compose 2.26 or newer: " + RECREATE,
    ),
    Cause(
        "container-apparmor",
        "fault",
        "The host has AppArmor and the container runs under {label}, not under {wanted}.",
        "run `docker/up` as root; or `sudo apparmor_parser -r -W docker/apparmor/review-appliance`, "
        "APPLIANCE_APPARMOR=review-appliance in .env, and " + RECREATE,
    ),
    Cause(
        "container-apparmor-unconfined",
        "warning",
        "The host has AppArmor and the container is not confined by it, though {wanted} could be in force.",
        "run `docker/up` as root; or `sudo apparmor_parser -r -W docker/apparmor/review-appliance`, "
        "APPLIANCE_APPARMOR=review-appliance in .env, and " + RECREATE,
    ),
    Cause(
        "container-apparmor-complain",
        "warning",
        "The AppArmor profile {label} is not enforced.",
        "`sudo aa-enforce {wanted}`, or load it anew: `sudo apparmor_parser -r -W docker/apparmor/review-appliance`.",
    ),
    Cause(
        "apparmor-unknown",
        "warning",
        "Which AppArmor profile is in force cannot be told: {why}.",
        "`sudo grep review-appliance /sys/kernel/security/apparmor/profiles` on the host.",
    ),
    Cause("container-root-writable", "fault", "The container's root can be written.", RECREATE),
    Cause("container-user", "fault", "The container runs as {user}, not as {wanted}.", RECREATE),
    Cause("container-tmpfs", "fault", "Its tmpfs mounts are {what}, not those of compose.yaml ({wanted}).", RECREATE),
    Cause("container-unlimited", "fault", "The container has no limit of {what}.", RECREATE),
    Cause(
        "container-limits",
        "warning",
        "Its limit of {what} is {value}, in compose.yaml it is {wanted}.",
        "nothing if you set it; else " + RECREATE,
    ),
    Cause(
        "container-engine-socket",
        "fault",
        "The engine's own socket is mounted into the container ({what}): who gets there rules the host.",
        "take it out of the volumes: " + RECREATE,
    ),
    Cause(
        "container-mounts",
        "fault",
        "{what} of the host is mounted into the container.",
        "take it out of the volumes: " + RECREATE,
    ),
    Cause(
        "container-state",
        "fault",
        "No volume that can be written is at /var/lib/appliance: the state is lost with the container.",
        RECREATE,
    ),
    Cause("container-host-namespace", "fault", "The container shares the host's {what}.", RECREATE),
    Cause("container-devices", "fault", "The container was given devices: {what}.", RECREATE),
    Cause(
        "container-ports",
        "warning",
        "The container publishes ports ({what}), though nothing in it listens.",
        "take `ports:` away: " + RECREATE,
    ),
    Cause("container-init", "warning", "The container has no init, so ended processes may pile up.", RECREATE),
)

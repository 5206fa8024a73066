"""Names that every installation has: they tell nothing about this one."""

from __future__ import annotations

import re

from sparkgate.policy.checking.wording import words

GENERIC_USERS = words(
    """<user> <username> admin administrator app appuser bar build builder centos circleci coder codespace
    container debian default dev developer docker ec2-user fedora foo github gitlab-runner guest host jenkins
    jovyan linuxbrew me myname myuser name node nonroot nvidia ollama pi public root runner sandbox server
    shared test testuser ubuntu user user_name username vagrant vllm vscode xxx you your your-name your_name
    your_user yourname"""
) | {"all users", "default user", "your name"}
GENERIC_HOSTS = words(
    """archlinux box computer container debian desktop example fedora github host hostname ip laptop localhost
    machine my-host my-server myhost myserver node node1 pc raspberrypi remote server ubuntu vm"""
)
GENERIC_DIRS = words(
    """app apps backup bar bin c cache cdrom checkpoints code config d data datasets db desktop dev dir disk docker
    documents downloads external file folder foo ftp git go hdd hf html http hub huggingface input lib llama.cpp
    log logs media minio model models mongodb mount movies music mysql nfs nvme ollama output path pictures
    postgres postgresql projects redis results share shared src ssd storage temp tmp to usb venv videos vllm
    volume weights work workspace www x y"""
)
MODEL_DIRS = words("models huggingface hub hf path mongodb llama.cpp vllm library")
PUBLIC_HOSTS = re.compile(
    r"(?:[\w-]+\.)*(?:docker|containers|orb)\.internal|metadata\.google\.internal|instance-data\.ec2\.internal"
    r"|(?:kubernetes|kube-dns|coredns)\.[\w.-]+|(?:[\w-]+\.)*(?:svc\.)?cluster\.local|(?:[\w-]+\.)?example\.\w+"
    r"|(?:raspberrypi|homeassistant|myhost|hostname|host|my-?server|server|foo|mydomain|domain|corp|internal)\.\w+",
    re.IGNORECASE,
)
NOT_HOSTS = words(
    """$home adduser android app application appsettings args cfg color com compose conf config context crate ctx
    dist docker-compose dockerfile document env event fail2ban go golang google hosts init io ip-up jail java
    javax jdk kotlin let librt local-storage localhost makefile module net node obj options opts org os override
    package parsed path pathlib process py rc scope self settings std storage sun super sys tensorflow tf this
    thread threading torch tornado user usr values var window zone"""
)
MAIL_PLACES = re.compile(
    r"v?\d+\.\d.*|(?:.*\.)?(?:example|test|invalid|localhost|local)(?:\.\w+)?|users\.noreply\.github\.com"
    r"|(?:your|my)?-?(?:domain|company|host|server|mail|email|site)\.\w+|foo\.\w+|bar\.com"
    r"|(?:[\w-]+\.)*(?:py|js|ts|md|json|ya?ml|service|socket|target|timer|whl|git|txt|toml|conf|png|jpg|svg)",
    re.IGNORECASE,
)
MAIL_ROLES = words("do-not-reply donotreply git hg name no-reply noreply svn user username you")
KNOWN_IPS = words(
    """100.100.100.100 100.100.100.200 169.254.169.254 172.17.0.1 1.1.1.1 1.0.0.1 8.8.8.8 8.8.4.4 9.9.9.9
    149.112.112.112 208.67.222.222 208.67.220.220 94.140.14.14 76.76.2.0 1.2.3.4 2606:4700:4700::1111
    2606:4700:4700::1001 2001:4860:4860::8888 2001:4860:4860::8844 2620:fe::fe"""
)
TICKET_PREFIXES = words(
    """a100 ada aes agpl ai amd ansi api arm ascii atx aws b200 base bcp bge bsd c cbc ccnp cc cd cert cis claude
    cm cmake cnn co core covid cpu cuda cve cvss cwe ddr ddr4 ddr5 dgx dsa dvi ec ecma en ep epyc esp exfat f
    fat fips flash fp g gb gcc gddr gemma ghsa glibc glm gnu gpl gpt gptq grok gtx h100 h200 hdmi hip hmac hs
    http i ia ic idx ieee iec imx int intel ip ipv iq iso iter j jdk jep jetson jsr k kb kimi l l40 lga lgpl
    llama llm lm lpddr lte m mi mig minilm mips mit mk mp ms nfc nfs nice nvme o ntp oauth ocp os osi p pa pc
    pci pcie pep phi pin pkcs pm ps q qwen r raid ram rc rdna rdp res rev rfc risc rj rocm rs rsa rtx ryzen s
    sata scsi sd sdxl sha sku sm sn so soc sp spec sql ssd ssl stage std step t tb tc tcp td test tls tpu ts ttl
    tv u udp uefi unicode us usa usb usn utc utf v v100 ver vga vit vlan vmx vol vp w wasm wd web wifi win wmt
    wpa ws x xa xc xeon xl xmm yolo z zen"""
)
"""What stands before `-1234` in the name of a product, a standard or an advisory rather than of a ticket."""

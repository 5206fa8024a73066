"""Names that every installation has: they tell nothing about this one."""

from __future__ import annotations

import re
from ipaddress import IPv4Network

from sparkgate.policy.checking.wording import words

GENERIC_USERS = words(
    """<user> <username> admin administrator app appuser bar build builder centos circleci coder codespace container
    debian default dev developer docker ec2-user fedora foo github gitlab-runner guest host jenkins jovyan linuxbrew
    me myname myuser name node nonroot nvidia ollama pi public root runner sandbox server shared test testuser ubuntu
    user user_name username vagrant vllm vscode xxx you your your-name your_name your_user yourname"""
) | {"all users", "default user", "your name"}
GENERIC_HOSTS = words(
    """archlinux box computer container debian desktop example fedora github host hostname ip laptop localhost machine
    my-host my-server myhost myserver node node1 pc raspberrypi remote server ubuntu vm"""
)
GENERIC_DIRS = words(
    """app apps backup bar bin c cache cdrom checkpoints code config d data datasets db desktop dev dir disk docker
    documents downloads external file folder foo ftp git go hdd hf html http hub huggingface input lib llama.cpp log
    logs lvm md media minio model models mongodb mount movies music mysql nfs nvme nvme0n nvme1n nvme0n1p nvme1n1p
    ollama output path pictures pool postgres postgresql projects redis raid results sda sdb sdc share shared src ssd
    storage tank temp tmp to usb venv videos vllm volume weights work workspace www x y zfs zpool"""
)
MODEL_DIRS = words("models huggingface hub hf path mongodb llama.cpp vllm library")
PUBLIC_HOSTS = re.compile(
    r"spark\.(?:local|lan|home)|(?:[\w-]+\.)*(?:docker|containers|orb)\.internal|metadata\.google\.internal|instance-data\.ec2\.internal"
    r"|(?:kubernetes|kube-dns|coredns)\.[\w.-]+|(?:[\w-]+\.)*(?:svc\.)?cluster\.local|(?:[\w-]+\.)?example\.\w+"
    r"|(?:raspberrypi|homeassistant|myhost|hostname|host|my-?server|server|foo|mydomain|domain|corp|internal)\.\w+",
    re.IGNORECASE,
)
HOST_PARTS = words("gpu node name host hostname machine server computer device my your the example foo bar box pc test")
NAMED_HOST = words("name hostname my your example foo bar")
"""A host called by nothing but such words, one of these among them, stands for any."""
NOT_HOSTS = words(
    """$home adduser android app application appsettings args cfg color com compose conf config context crate ctx dist
    docker-compose dockerfile document env event fail2ban go golang google hosts init io ip-up jail java javax jdk
    kotlin let librt local-storage localhost makefile module net node obj options opts org os override package parsed
    path pathlib process py rc scope self settings std storage sun super sys tensorflow tf this thread threading torch
    tornado user usr values var window zone"""
)
STREET_ENDS = re.compile(
    r".*(?:stra(?:ß|ss)e|str\.|gasse|weg|allee|platz|ring|damm|ufer|hof|steig|deich|markt|straat|laan|gracht|kade|plein|dijk"
    r"|gatan|vägen|vej|gade|veien|katu|tie)",
    re.IGNORECASE,
)
STREET_BEGINS = words("""Am An Auf Im In Zum Zur Via Viale Piazza Corso Calle Rua Rue Avenue Boulevard Ulica Strada""")
NOT_STREETS = words(
    """Appendix Chapter Debian Fedora Figure Gemma Issue Issues Kapitel Line Lines Llama Page Qwen Release Row Rows
    Section
    Seite Server Spark Step Tabelle Table Ubuntu Version Volume Windows Zeile"""
)
"""Words before two numbers that count something else than houses."""
MAIL_PLACES = re.compile(
    r"v?\d+\.\d.*|(?:.*\.)?(?:example|test|invalid|localhost|local)(?:\.\w+)?|users\.noreply\.github\.com"
    r"|(?:your|my)?-?(?:domain|company|host|server|mail|email|site)\.\w+|foo\.\w+|bar\.com"
    r"|(?:[\w-]+\.)*(?:py|js|ts|md|json|ya?ml|service|socket|target|timer|whl|git|txt|toml|conf|png|jpg|svg)",
    re.IGNORECASE,
)
MAIL_LISTS = re.compile(
    r"lists?\.(?:[\w-]+\.)+(?:org|net|io|dev|edu)|vger\.kernel\.org|googlegroups\.com", re.IGNORECASE
)
"""Hosts that carry nothing but lists everybody reads."""
MAIL_ROLES = words(
    """abuse do-not-reply donotreply git hg hostmaster mailer-daemon maintainer maintainers name no-reply noreply
    postmaster security svn user username you"""
)
KNOWN_IPS = words(
    """10.0.0.1 10.0.0.138 10.0.2.2 10.0.2.15 10.0.3.2 10.1.1.1 10.1.10.1 10.10.10.1 10.10.0.1 10.8.0.1 10.96.0.1
    10.96.0.10 10.42.0.1 10.43.0.1 10.43.0.10 10.88.0.1 192.168.0.1 192.168.0.254 192.168.1.1 192.168.1.254
    192.168.2.1 192.168.3.1 192.168.4.1 192.168.8.1 192.168.10.1 192.168.11.1 192.168.15.1 192.168.16.1 192.168.20.1
    192.168.31.1 192.168.39.1 192.168.49.1 192.168.49.2 192.168.50.1 192.168.64.1 192.168.68.1 192.168.86.1
    192.168.88.1 192.168.99.100 192.168.122.1 192.168.123.254 192.168.178.1 192.168.254.254 172.16.0.1 172.18.0.1
    172.19.0.1 172.20.10.1 fe80::1 100.100.100.100 100.100.100.200 169.254.169.254 172.17.0.1 1.1.1.1 1.0.0.1 8.8.8.8
    8.8.4.4 9.9.9.9 149.112.112.112 208.67.222.222 208.67.220.220 94.140.14.14 76.76.2.0 1.2.3.4 2606:4700:4700::1111
    2606:4700:4700::1001 2001:4860:4860::8888 2001:4860:4860::8844 2620:fe::fe"""
)
KNOWN_NETWORKS = tuple(
    map(
        IPv4Network,
        (
            *("140.82.112.0/20", "185.199.108.0/22", "192.30.252.0/22", "151.101.0.0/16", "199.232.0.0/16"),
            *("104.16.0.0/13", "104.24.0.0/14", "172.64.0.0/13", "185.125.188.0/22", "91.189.88.0/21"),
        ),
    )
)
"""GitHub, Fastly, Cloudflare and Canonical: what answers there is known to all."""
ANY_SERVICE = words(
    """a adguard argo argocd cassandra cockroach cockroachdb fpm keydb localstack mssql neo4j nomad opentelemetry
    orchestrator php pushgateway rqlite schema scylla scylladb squid surrealdb tempo timescale timescaledb valkey
    varnish vmalert vmagent zookeeper
    admin agent agents airflow alertmanager alloy api app apps audio auth authelia automatic b backend
    bazarr beszel bge bitwarden blackbox bookstack broker browser cache caddy cadvisor chat chroma chromadb chrome
    chromium clickhouse client cluster code coder comfyui completion console consul controller core couchdb crawl
    cups dagster dashboard data database db deepseek default demo dev devstack dgx dify directus docker dragonfly
    drupal edge elastic elasticsearch embed embedding embeddings engine envoy esphome etcd exporter fastapi flask
    flowise frigate frontend functions gateway gemma generation generic gentoo ghost gitea gitlab glm gotenberg
    gpt grafana graphite gunicorn hadoop haproxy hasura head hive home homeassistant http httpbin hub image images
    imgproxy immich inference influxdb ingress internal ip jaeger jellyfin jenkins jina jupyter kafka kernel
    kestra keycloak kibana kimi kokoro kong kubernetes kuma lab langflow langfuse lb letta librechat lidarr linux
    litellm llama llamacpp llm lmstudio local logstash loki lts mail mailhog main manager manjaro mariadb master
    mattermost mcp mealie memcached memory meta metabase metrics milvus minio mint mistral mlflow model mongo
    mongodb mosquitto mqtt mysql n namenode nats nemotron neo nextcloud nginx ngx nim node nodered nomic notebook
    nvidia ollama open openai opensearch openwebui ory oss otel outline paperless pg pgadmin pgvector phi phoenix
    phpmyadmin pihole piper playwright plex portainer postgres postgresql postgrest prefect primary prod
    prometheus prowlarr proxmox proxy puppeteer pve qbittorrent qdrant qwen rabbitmq radarr rag ray realtime red
    redis registry replica rerank reranker rest router rt s searx searxng selenium server service services sglang
    signoz solr sonarr spark sparkgate speech sql sso stack staging static statsd storage strapi stt superset
    surrealdb svc swap swarm tabby tei tempo temporal tensorboard test text tgi tika tomcat tool tools traefik
    transmission trino triton tts ui unifi unleash unstructured upstream uptime vault vaultwarden vector vectordb
    version victoriametrics video vision vllm vscode weaviate web webapp webserver webui whisper wiki wordpress
    worker www wyoming x y your yourhost yourserver zipkin zookeeper"""
)
"""What containers and their services are called in every compose file."""
LINK_NETWORKS = re.compile(r"192\.168\.1(?:00|77)\.1[012]?")
"""What NVIDIA's guide to two connected DGX Spark gives their ports."""
TICKET_PREFIXES = words(
    """a100 ada aes agpl ai amd ansi api arm ascii atx aws b200 base bcp bge bsd c cbc ccnp cc cd cert cis claude cm
    cmake cnn co core covid cpu cuda cve cvss cwe ddr ddr4 ddr5 dgx dsa dvi ec ecma en ep epyc esp exfat f fat fips
    flash fp g gb gcc gddr gemma ghsa glibc glm gnu gpl gpt gptq grok gtx h100 h200 hdmi hip hmac hs http i ia ic idx
    ieee iec imx int intel ip ipv iq iso iter j jdk jep jetson jsr k kb kimi l l40 lga lgpl llama llm lm lpddr lte m
    mi mig minilm mips mit mk mp ms nfc nfs nice nvme o ntp oauth ocp os osi p pa pc pci pcie pep phi pin pkcs pm ps q
    qwen r raid ram rc rdna rdp res rev rfc risc rj rocm rs rsa rtx ryzen s sata scsi sd sdxl sha sku sm sn so soc sp
    spec sql ssd ssl stage std step t tb tc tcp td test tls tpu ts ttl tv u udp uefi unicode us usa usb usn utc utf v
    v100 ver vga vit vlan vmx vol vp w wasm wd web wifi win wmt wpa ws x xa xc xeon xl xmm yolo z zen"""
)
"""What stands before `-1234` in the name of a product, a standard or an advisory rather than of a ticket."""
PUBLIC_PROJECTS = words(
    """abdera accumulo ace activemq airavata airflow amber ambari amq ant any arrow artemis asterixdb atlas avro axis
    axis2 bahir batik beam bigtop bookkeeper bpki bug bval calcite camel carbondata cassandra cayenne celix chukwa
    click cloudstack cocoon collections commons compress cordova couchdb crunch csv curator cxf daffodil datafu dbcp
    delta derby dolphinscheduler drill drillbit druid dubbo eagle eclipse emptyproject empire-db example falcon felix
    fineract fink flex flink flume fop ftpserver geode geronimo giraph gobblin gora griffin groovy guacamole hadoop
    hama hawq hbase hcatalog hdds hdfs hive hhh hsearch httpclient httpcore hudi iceberg ignite impala infra ios iotdb
    isis jackrabbit jaxb jboss jclouds jdbc jdk jena jenkins jexl jira jmeter johnzon juddi juneau kafka karaf kerby
    knox kudu kylin kyuubi lang lens livy log4j log4j2 logging lucene lucenenet mahout managed mapreduce mariadb math
    maven mc mdev mesos metamodel metron mina minifi mng mongodb monterey mrunit msite muse myfaces mynewt net
    netbeans nifi nlpcraft nutch oak odftoolkit ofbiz olingo oozie opencmis openejb openjpa openmeetings opennlp
    openwebbeans openwhisk orc ow owb ozone parquet pdfbox phoenix pig pinot pivot plc4x poi polaris proj project
    projectkey proton pulsar pylucene qpid ranger ratis reef resteasy rocketmq roller samza sanselan santuario savan
    scxml sdap seatunnel sentry server shindig shiro singa sling solr sonar spark spring sqoop stanbol storm
    streampipes streams struts struts2 surefire synapse syncope sysml systemml tajo tapestry test tez thrift tika
    tiles tinkerpop tomee trafodion trafficserver trinidad twill uima unomi usergrid velocity vfs vxquery wagon whirr
    wicket wildfly wink wookie wss xalan xerces xmlbeans xxx yarn ycsb yunikorn zeppelin zookeeper abc foo key myproj
    ticket issue"""
)
"""Keys of projects whose trackers everybody reads, and those of manuals."""
PUBLIC_TRACKERS = re.compile(
    r"issues\.(?:apache|redhat|jboss|jenkins-ci|jenkins|liferay|sonatype)\.(?:org|io|com)|bugs\.(?:openjdk|java)\.\w+"
    r"|bugs\.mojang\.com|jira\.(?:mongodb\.(?:org|com)|mariadb\.org|atlassian\.com)|youtrack\.jetbrains\.com|hibernate\.atlassian\.net|bugreports\.qt\.io|\b(?:apache|openjdk|mojang|jetbrains|minecraft|jenkins)\b",
    re.IGNORECASE,
)
TEST_CARDS = words(
    """4000056655665556 4012888888881881 4111111111111111 4222222222222 4917610000000000 4462030000000000
    4716108999716531 5105105105105100 5200828282828210 5454545454545454 5500000000000004 5555555555554444
    2223003122003222 2223000048400011 340000000000009 371449635398431 378282246310005 378734493671000 30000000000004
    30569309025904 38520000023237 36227206271667 3056930009020004 3088000000000009 3530111333300000 3566002020360505
    6011000000000004 6011000990139424 6011111111111117 6011601160116611 6200000000000005 6205500000000000004
    5019717010103742 6304000000000000 6304000000000000000 6331101999990016 5019555544445555"""
)
"""Card numbers that makers of payment software publish for tests."""
SAMPLE_IBANS = words(
    """CH9300762011623852957 DE89370400440532013000 FR1420041010050500013M02606 GB29NWBK60161331926819
    GB82WEST12345698765432 NL91ABNA0417164300"""
)
"""Account numbers that stand in every manual."""
TRIAL = re.compile(
    r"test|sandbox|stripe|paypal|braintree|adyen|mollie|worldpay|example|dummy|fake|sample|luhn|regex|demo|checkout|wikipedia",
    re.IGNORECASE,
)
TOLL_FREE = re.compile(
    r"(?:\+?1[ .-]?)?\(?8(?:00|88|77|66|55|44|33|22)\)?[ .-]\d{3}[ .-]?\d{4}"
    r"|(?:\+|00)1[ .-]?\(?8(?:00|88|77|66|55|44|33|22)\)?[ .-]?\d{3}[ .-]?\d{4}"
    r"|(?:\+44 ?|0)80[08][ -]?\d{3}[ -]?\d{3,4}"
    r"|(?:00|\+)?800[ -]?\d{4}[ -]?\d{4}|(?:\+49 ?|0)800[ /-]?\d{3} ?\d{4}"
)
"""Numbers that cost the caller nothing, as they are written in North America, Britain and Germany."""
FAMOUS_ADDRESS = re.compile(
    r"(?:10 Downing|1600 (?:Pennsylvania|Amphitheatre)|11 Wall|51 Franklin|3 Abbey|350 Fifth|30 Rockefeller|4 Privet"
    r"|742 Evergreen|410 Terry|2788 San Tomas|2701 San Tomas|1 Apple Park|1 Hacker|124 Conch"
    r"|123 (?:Main|Fake|Any|Example)"
    r"|100 Main|1 Main|1355 Market|345 Park|1 Infinite|1 Microsoft)\b"
)
ROADS_BEFORE = re.compile(
    r"(?:Route|Highway|Interstate|Hwy|Section|Chapter|Line|Bus|Episode|Season|Level)\.? $", re.IGNORECASE
)

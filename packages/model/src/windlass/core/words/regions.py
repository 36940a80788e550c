"""The regions of four clouds, as data: choices before any cloud account is connected.

A snapshot: nothing here asks a provider. It was compiled by hand in November 2026 from public documentation
and public lists made after it. Its sources, and how reliable they are:

- Regions: as listed in September 2026. Azure is the public cloud; Azure Government and Azure China are
  separate clouds.
- AWS zone letters: as in lists of the EC2 API's answers. Regions opened since late 2022 are assumed to have
  the usual a, b, c.
- Azure zones: as listed in March 2025, and as announced for the regions opened later.
- ARM: as announced by the providers, without asking each region. On Google Cloud and Azure it is set only
  where an announcement of late 2024 named the region, so False there may also mean "came later".

A city is the place that the provider names, or the state if it names no city; if it names only the country,
the best known site there. Capacity and the limits of an account are up to the provider.
"""

from __future__ import annotations

import msgspec


class CloudRegion(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    country_code: str  # ISO 3166-1 alpha-2
    country: str
    city: str
    arm_supported: bool
    zones: tuple[str, ...]


COUNTRIES = {
    "AE": "United Arab Emirates",
    "AT": "Austria",
    "AU": "Australia",
    "BE": "Belgium",
    "BH": "Bahrain",
    "BR": "Brazil",
    "CA": "Canada",
    "CH": "Switzerland",
    "CL": "Chile",
    "CN": "China",
    "DE": "Germany",
    "DK": "Denmark",
    "ES": "Spain",
    "FI": "Finland",
    "FR": "France",
    "GB": "United Kingdom",
    "HK": "Hong Kong",
    "ID": "Indonesia",
    "IE": "Ireland",
    "IL": "Israel",
    "IN": "India",
    "IT": "Italy",
    "JP": "Japan",
    "KR": "South Korea",
    "MX": "Mexico",
    "MY": "Malaysia",
    "NL": "Netherlands",
    "NO": "Norway",
    "NZ": "New Zealand",
    "PL": "Poland",
    "QA": "Qatar",
    "SA": "Saudi Arabia",
    "SE": "Sweden",
    "SG": "Singapore",
    "TH": "Thailand",
    "TW": "Taiwan",
    "US": "United States",
    "ZA": "South Africa",
}


def region(name: str, code: str, city: str, *, arm: bool, zones: tuple[str, ...]) -> CloudRegion:
    return CloudRegion(
        name=name, country_code=code, country=COUNTRIES[code], city=city, arm_supported=arm, zones=zones
    )


def aws(name: str, code: str, city: str, letters: str = "abc") -> CloudRegion:
    """Declares an AWS region. Zones are eu-west-3a, eu-west-3b ...; Graviton is assumed to be available
    everywhere, including China and GovCloud."""
    return region(name, code, city, arm=True, zones=tuple(name + letter for letter in letters))


def gcp(name: str, code: str, city: str, letters: str = "abc", *, arm: bool = False) -> CloudRegion:
    """Declares a Google Cloud region. Zones are europe-west9-a, europe-west9-b ...; ARM is Axion (C4A) or
    Ampere (T2A)."""
    return region(name, code, city, arm=arm, zones=tuple(f"{name}-{letter}" for letter in letters))


def azure(name: str, code: str, city: str, *, zones: int = 3, arm: bool = False) -> CloudRegion:
    """Declares an Azure region. Zones are "1", "2", "3" in each subscription, or none at all; ARM is Cobalt
    100."""
    return region(name, code, city, arm=arm, zones=tuple(str(n) for n in range(1, zones + 1)))


def scaleway(name: str, code: str, city: str, *, arm: bool = False) -> CloudRegion:
    """Declares a Scaleway region. Zones are fr-par-1, fr-par-2, fr-par-3; ARM is Ampere (COPARM1,
    BASIC2-A)."""
    return region(name, code, city, arm=arm, zones=tuple(f"{name}-{n}" for n in (1, 2, 3)))


AWS = (
    aws("us-east-1", "US", "Northern Virginia", "abcdef"),
    aws("us-east-2", "US", "Ohio"),
    aws("us-west-1", "US", "Northern California"),  # an account can use two of the three zones
    aws("us-west-2", "US", "Oregon", "abcd"),
    aws("ca-central-1", "CA", "Montréal", "abd"),
    aws("ca-west-1", "CA", "Calgary"),
    aws("mx-central-1", "MX", "Querétaro"),
    aws("sa-east-1", "BR", "São Paulo"),
    aws("eu-central-1", "DE", "Frankfurt"),
    aws("eu-central-2", "CH", "Zurich"),
    aws("eu-west-1", "IE", "Dublin"),
    aws("eu-west-2", "GB", "London"),
    aws("eu-west-3", "FR", "Paris"),
    aws("eu-north-1", "SE", "Stockholm"),
    aws("eu-south-1", "IT", "Milan"),
    aws("eu-south-2", "ES", "Zaragoza"),
    aws("il-central-1", "IL", "Tel Aviv"),
    aws("me-south-1", "BH", "Manama"),
    aws("me-central-1", "AE", "Dubai"),
    aws("af-south-1", "ZA", "Cape Town"),
    aws("ap-east-1", "HK", "Hong Kong"),
    aws("ap-east-2", "TW", "Taipei"),
    aws("ap-south-1", "IN", "Mumbai"),
    aws("ap-south-2", "IN", "Hyderabad"),
    aws("ap-northeast-1", "JP", "Tokyo", "acd"),
    aws("ap-northeast-2", "KR", "Seoul", "abcd"),
    aws("ap-northeast-3", "JP", "Osaka"),
    aws("ap-southeast-1", "SG", "Singapore"),
    aws("ap-southeast-2", "AU", "Sydney"),
    aws("ap-southeast-3", "ID", "Jakarta"),
    aws("ap-southeast-4", "AU", "Melbourne"),
    aws("ap-southeast-5", "MY", "Kuala Lumpur"),
    aws("ap-southeast-6", "NZ", "Auckland"),
    aws("ap-southeast-7", "TH", "Bangkok"),
    # China and GovCloud are partitions with separate accounts.
    aws("cn-north-1", "CN", "Beijing", "abd"),
    aws("cn-northwest-1", "CN", "Zhongwei"),
    aws("us-gov-east-1", "US", "Ohio"),
    aws("us-gov-west-1", "US", "Oregon"),
)

GCP = (
    gcp("us-central1", "US", "Council Bluffs", "abcf", arm=True),
    gcp("us-east1", "US", "Moncks Corner", "bcd", arm=True),
    gcp("us-east4", "US", "Ashburn", arm=True),
    gcp("us-east5", "US", "Columbus"),
    gcp("us-south1", "US", "Dallas"),
    gcp("us-west1", "US", "The Dalles"),
    gcp("us-west2", "US", "Los Angeles"),
    gcp("us-west3", "US", "Salt Lake City"),
    gcp("us-west4", "US", "Las Vegas"),
    gcp("northamerica-northeast1", "CA", "Montréal"),
    gcp("northamerica-northeast2", "CA", "Toronto"),
    gcp("northamerica-south1", "MX", "Querétaro"),
    gcp("southamerica-east1", "BR", "São Paulo"),
    gcp("southamerica-west1", "CL", "Santiago"),
    gcp("europe-central2", "PL", "Warsaw"),
    gcp("europe-north1", "FI", "Hamina"),
    gcp("europe-north2", "SE", "Stockholm"),
    gcp("europe-southwest1", "ES", "Madrid"),
    gcp("europe-west1", "BE", "St. Ghislain", "bcd", arm=True),
    gcp("europe-west2", "GB", "London"),
    gcp("europe-west3", "DE", "Frankfurt", arm=True),
    gcp("europe-west4", "NL", "Eemshaven", arm=True),
    gcp("europe-west6", "CH", "Zurich"),
    gcp("europe-west8", "IT", "Milan"),
    gcp("europe-west9", "FR", "Paris"),
    gcp("europe-west10", "DE", "Berlin"),
    gcp("europe-west12", "IT", "Turin"),
    gcp("africa-south1", "ZA", "Johannesburg"),
    gcp("me-central1", "QA", "Doha"),
    gcp("me-central2", "SA", "Dammam"),
    gcp("me-west1", "IL", "Tel Aviv"),
    gcp("asia-east1", "TW", "Changhua County"),
    gcp("asia-east2", "HK", "Hong Kong"),
    gcp("asia-northeast1", "JP", "Tokyo"),
    gcp("asia-northeast2", "JP", "Osaka"),
    gcp("asia-northeast3", "KR", "Seoul"),
    gcp("asia-south1", "IN", "Mumbai"),
    gcp("asia-south2", "IN", "Delhi"),
    gcp("asia-southeast1", "SG", "Singapore", arm=True),
    gcp("asia-southeast2", "ID", "Jakarta"),
    gcp("asia-southeast3", "TH", "Bangkok"),
    gcp("australia-southeast1", "AU", "Sydney"),
    gcp("australia-southeast2", "AU", "Melbourne"),
)

AZURE = (
    azure("eastus", "US", "Virginia", arm=True),
    azure("eastus2", "US", "Virginia", arm=True),
    azure("centralus", "US", "Iowa", arm=True),
    azure("northcentralus", "US", "Illinois", zones=0),
    azure("southcentralus", "US", "Texas", arm=True),
    azure("westcentralus", "US", "Wyoming", zones=0),
    azure("westus", "US", "California", zones=0, arm=True),
    azure("westus2", "US", "Washington", arm=True),
    azure("westus3", "US", "Phoenix", arm=True),
    azure("canadacentral", "CA", "Toronto", arm=True),
    azure("canadaeast", "CA", "Québec", zones=0),
    azure("mexicocentral", "MX", "Querétaro", arm=True),
    azure("brazilsouth", "BR", "São Paulo", arm=True),
    azure("brazilsoutheast", "BR", "Rio de Janeiro", zones=0),
    azure("chilecentral", "CL", "Santiago"),
    azure("northeurope", "IE", "Dublin", arm=True),
    azure("westeurope", "NL", "Amsterdam", arm=True),
    azure("uksouth", "GB", "London", arm=True),
    azure("ukwest", "GB", "Cardiff", zones=0),
    azure("francecentral", "FR", "Paris", arm=True),
    azure("francesouth", "FR", "Marseille", zones=0),
    azure("germanywestcentral", "DE", "Frankfurt", arm=True),
    azure("germanynorth", "DE", "Berlin", zones=0),
    azure("switzerlandnorth", "CH", "Zurich", arm=True),
    azure("switzerlandwest", "CH", "Geneva", zones=0),
    azure("austriaeast", "AT", "Vienna"),
    azure("belgiumcentral", "BE", "Brussels"),
    azure("denmarkeast", "DK", "Copenhagen"),
    azure("italynorth", "IT", "Milan"),
    azure("norwayeast", "NO", "Oslo"),
    azure("norwaywest", "NO", "Stavanger", zones=0),
    azure("polandcentral", "PL", "Warsaw"),
    azure("spaincentral", "ES", "Madrid"),
    azure("swedencentral", "SE", "Gävle", arm=True),
    azure("israelcentral", "IL", "Tel Aviv"),
    azure("qatarcentral", "QA", "Doha"),
    azure("uaenorth", "AE", "Dubai", arm=True),
    azure("uaecentral", "AE", "Abu Dhabi", zones=0),
    azure("southafricanorth", "ZA", "Johannesburg"),
    azure("southafricawest", "ZA", "Cape Town", zones=0),
    azure("australiaeast", "AU", "Sydney", arm=True),
    azure("australiasoutheast", "AU", "Melbourne", zones=0),
    azure("australiacentral", "AU", "Canberra", zones=0),
    azure("australiacentral2", "AU", "Canberra", zones=0),
    azure("newzealandnorth", "NZ", "Auckland"),
    azure("centralindia", "IN", "Pune", arm=True),
    azure("southindia", "IN", "Chennai", zones=0),
    azure("westindia", "IN", "Mumbai", zones=0),
    azure("indiasouthcentral", "IN", "Hyderabad"),
    azure("eastasia", "HK", "Hong Kong"),
    azure("southeastasia", "SG", "Singapore", arm=True),
    azure("indonesiacentral", "ID", "Jakarta"),
    azure("malaysiawest", "MY", "Kuala Lumpur"),
    azure("japaneast", "JP", "Tokyo", arm=True),
    azure("japanwest", "JP", "Osaka"),
    azure("koreacentral", "KR", "Seoul"),
    azure("koreasouth", "KR", "Busan", zones=0),
)

SCALEWAY = (
    scaleway("fr-par", "FR", "Paris", arm=True),
    scaleway("nl-ams", "NL", "Amsterdam"),
    scaleway("pl-waw", "PL", "Warsaw"),
)

REGIONS: dict[str, tuple[CloudRegion, ...]] = {"aws": AWS, "gcp": GCP, "azure": AZURE, "scaleway": SCALEWAY}

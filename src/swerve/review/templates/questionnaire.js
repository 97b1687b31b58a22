const form = document.getElementById("form");
const names = [...new Set([...form.querySelectorAll("input")].map((input) => input.name))];
const answers = () => Object.fromEntries(new FormData(form));
const count = () => {
  const left = names.length - Object.keys(answers()).length;
  document.getElementById("left").textContent = left ? `${left} of ${names.length} not answered` : "all answered";
};
form.addEventListener("change", count);
document.getElementById("download").addEventListener("click", () => {
  const content = JSON.stringify({ questionnaire: document.body.dataset.questionnaire, answers: answers() }, null, 1);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  link.download = "answers.json";
  link.click();
});
count();
